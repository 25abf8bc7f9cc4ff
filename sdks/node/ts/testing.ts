import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { WindlassOptions } from './connection.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds, type Duration } from './duration.js'
import { encode } from './json.js'
import type { JobRecord } from './records.js'
import { direct } from './native.js'
import { connectionOf, Windlass } from './windlass.js'
import type { Worker, WorkerStats } from './worker.js'

export { perform, performBatch, type Performed, type PerformOptions } from './perform.js'

/** What a drain did. */
export interface DrainReport extends WorkerStats {
  /** What handlers threw. */
  errors: unknown[]
}

/** Jobs of each queue that a drain runs at once. */
const AT_ONCE = 10

/** States of jobs that will still run. */
const PENDING = ['available', 'scheduled', 'retryable'] as const

/**
 * A Windlass with a SQLite file of its own, for one test. Takes what the program gives its own: `keys` of encrypted jobs, `traces`.
 *
 * ```ts
 * const t = await testWindlass()
 * await signUp(t.windlass, 'a@example.com')
 * await t.assertEnqueued(sendMail, { to: 'a@example.com' })
 * const report = await t.drain(worker => worker.handle(sendMail, handler))
 * assert.equal(report.completed, 1)
 * await t.close()
 * ```
 */
export async function testWindlass (options: WindlassOptions = {}): Promise<TestWindlass> {
  const folder = await mkdtemp(join(tmpdir(), 'windlass-'))
  const windlass = new Windlass(`sqlite:${join(folder, 'jobs.db')}?synchronous=normal`, options)
  connectionOf(windlass).isTest = true
  await windlass.migrate()
  return new TestWindlass(windlass, folder)
}

/** Made by {@link testWindlass}. */
export class TestWindlass {
  readonly #folder: string

  /** @internal */
  constructor (readonly windlass: Windlass, folder: string) { this.#folder = folder }

  /** The jobs of a kind that will still run, oldest first. */
  async enqueued (job: JobDefinition): Promise<JobRecord[]> {
    const found: JobRecord[] = []
    for (const state of PENDING) {
      for (let after: string | undefined, more = true; more;) {
        const { jobs, next } = await this.windlass.jobs({ kind: job.kind, state, after, limit: 1_000 })
        found.push(...jobs)
        after = next ?? undefined
        more = next !== null
      }
    }
    return found.sort((a, b) => a.id - b.id)
  }

  /** The same with args that can be read, also of encrypted jobs. */
  async #opened (job: JobDefinition): Promise<JobRecord[]> {
    const all = await this.enqueued(job)
    if (!job.options.encrypted) return all
    return Promise.all(all.map(async record => ({ ...record, args: await this.windlass.args(record.id) })))
  }

  /** Finds a job whose args have these fields with these values; rejects with a list of what is there when there is none. */
  async assertEnqueued<J extends JobDefinition> (job: J, args?: Partial<ArgsInput<J>>): Promise<JobRecord> {
    const all = await this.#opened(job)
    const wanted = asStored(args)
    const found = all.find(record => matches(record.args, wanted))
    if (found) return found
    const there = all.map(record => `\n  ${JSON.stringify(record.args)}`).join('') || ' none'
    throw new Error(`no job "${job.kind}"${args ? ` with ${JSON.stringify(args)}` : ''} is enqueued; jobs of that kind:${there}`)
  }

  /** Rejects when there is such a job. */
  async assertNotEnqueued<J extends JobDefinition> (job: J, args?: Partial<ArgsInput<J>>): Promise<void> {
    const wanted = asStored(args)
    const found = (await this.#opened(job)).find(record => matches(record.args, wanted))
    if (found) throw new Error(`a job "${job.kind}" is enqueued with ${JSON.stringify(found.args)}`)
  }

  /**
   * Works all jobs that are due, with the handlers that `register` gives the worker, until nothing is left to do now. What handlers threw is
   * thrown here, unless `allowFailures` is set: then it is in the report.
   */
  async drain (register: (worker: Worker) => unknown, { allowFailures = false } = {}): Promise<DrainReport> {
    const errors: unknown[] = []
    let total: WorkerStats | undefined
    // Handlers may enqueue into queues that were not there before.
    for (let known: string[] = [], queues = await this.#queues(); queues.some(name => !known.includes(name)); queues = await this.#queues()) {
      const stats = await this.#work(queues, register, errors)
      total = total ? sum(total, stats) : stats
      known = queues
    }
    if (errors.length > 0 && !allowFailures) throw errors.length === 1 ? errors[0] : new AggregateError(errors, `${errors.length} attempts failed`)
    return { ...total!, errors }
  }

  async #queues (): Promise<string[]> {
    return [...new Set(['default', ...(await this.windlass.queues()).map(({ name }) => name)])]
  }

  async #work (queues: string[], register: (worker: Worker) => unknown, errors: unknown[]): Promise<WorkerStats> {
    const at = Object.fromEntries(queues.map(name => [name, AT_ONCE]))
    const worker = this.windlass.worker({ queues: at, onError: error => { errors.push(error) } })
    register(worker)
    await worker.withoutWaits().start()
    try {
      await worker.untilIdle()
    } finally {
      await worker.close()
    }
    return worker.stats()
  }

  /**
   * Lets so much time pass in the store, at once: what is scheduled, or waits for another attempt, becomes due, what expires does. Between drains, since a worker
   * that runs would have been silent for as long. JavaScript's own clock stays as it is.
   */
  async travel (time: Duration): Promise<void> {
    const ms = milliseconds(time, 'the time to travel')
    const client = await connectionOf(this.windlass).client()
    direct(() => client.native.travel(ms))
  }

  /** Closes the store and removes its file. */
  async close (): Promise<void> {
    await this.windlass.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** The same, for `await using`. */
  async [Symbol.asyncDispose] (): Promise<void> { await this.close() }
}

/** Args that are looked for, as a store has them: a Date is a text there. */
function asStored (args: unknown): unknown {
  return args === undefined ? undefined : JSON.parse(encode(args, 'the args that are looked for'))
}

function matches (args: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return wanted === undefined || isDeepStrictEqual(args, wanted)
  if (typeof args !== 'object' || args === null) return false
  return Object.entries(wanted).every(([name, value]) => isDeepStrictEqual((args as Record<string, unknown>)[name], value))
}

function sum (a: WorkerStats, b: WorkerStats): WorkerStats {
  return Object.fromEntries(Object.entries(a).map(([name, count]) => [name, count + b[name as keyof WorkerStats]])) as unknown as WorkerStats
}
