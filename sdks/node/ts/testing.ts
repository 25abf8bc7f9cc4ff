import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { WindlassOptions } from './connection.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds, type Duration } from './duration.js'
import { InvalidOption } from './errors.js'
import { encode } from './json.js'
import { shown } from './known.js'
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

/** A drain that works so many more jobs than there were is taken for one that has no end. */
const ENDLESS = 10_000
/** Jobs that take as long as to come back for queues that were not there before. */
const A_PASS = 100
/** The time between two looks how many there were: ms. */
const LOOK = 50

/** Those of Node, also where a test puts timers of its own in their place later. */
const { setInterval, clearInterval } = globalThis

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
   * thrown here, unless `allowFailures` is set: then it is in the report. Rejects when more than `atMost` jobs are worked, by default 10,000 more than there
   * were: one that snoozes or enqueues itself never ends.
   */
  async drain (
    register: (worker: Worker) => unknown, { allowFailures = false, atMost }: { allowFailures?: boolean | undefined, atMost?: number | undefined } = {},
  ): Promise<DrainReport> {
    if (atMost !== undefined && !(Number.isInteger(atMost) && atMost > 0)) throw new InvalidOption('invalid_option', `atMost must be a number of jobs from 1 on, got ${shown(atMost)}`)
    const errors: unknown[] = []
    let total: WorkerStats | undefined
    let left = atMost ?? ENDLESS + (await this.windlass.queues()).reduce((sum, { available }) => sum + available, 0)
    // Handlers may enqueue into queues that were not there before.
    for (let known: string[] = [], queues = await this.#queues(); queues.some(name => !known.includes(name)); queues = await this.#queues()) {
      const stats = await this.#work(queues, register, errors, left)
      left -= stats.claimed + (total ? A_PASS : 0)
      total = total ? sum(total, stats) : stats
      known = queues
    }
    if (errors.length > 0 && !allowFailures) throw errors.length === 1 ? errors[0] : new AggregateError(errors, `${errors.length} attempts failed`)
    return { ...total!, errors }
  }

  async #queues (): Promise<string[]> {
    return [...new Set(['default', ...(await this.windlass.queues()).map(({ name }) => name)])]
  }

  async #work (queues: string[], register: (worker: Worker) => unknown, errors: unknown[], most: number): Promise<WorkerStats> {
    const at = Object.fromEntries(queues.map(name => [name, AT_ONCE]))
    const worker = this.windlass.worker({ queues: at, onError: error => { errors.push(error) } })
    register(worker)
    await worker.withoutWaits().start()
    const tooMany = new AbortController()
    const look = setInterval(() => { if (worker.stats().claimed > most) tooMany.abort() }, LOOK)
    try {
      await worker.untilIdle(tooMany)
    } catch (error) {
      if (!tooMany.signal.aborted) throw error
    } finally {
      clearInterval(look)
      await worker.close(tooMany) // then nobody waits for what it runs
    }
    if (tooMany.signal.aborted) throw new Error(await this.#endless(), { cause: errors.at(-1) })
    return worker.stats()
  }

  async #endless (): Promise<string> {
    const pages = await Promise.all([...PENDING, 'running' as const].map(state => this.windlass.jobs({ state })))
    const kinds = [...new Set(pages.flatMap(({ jobs }) => jobs.map(({ kind }) => JSON.stringify(kind))))].sort()
    const there = kinds.length > 0 ? `those that are there now are of kind ${kinds.join(', ')}; ` : ''
    return `the drain has worked too many jobs and there are more; ${there}does one snooze or enqueue itself for ever? drain(register, { atMost }) sets another limit`
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
