import { attempt, attemptMany, type Settle } from './attempt.js'
import { ofError, ofValue } from './conclusion.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds } from './duration.js'
import { check, encodeAll } from './enqueue.js'
import { InvalidOption } from './errors.js'
import { Handlers, type BatchHandler, type Handler, type Registered } from './handlers.js'
import { Job, type Attributes } from './job.js'
import { encode } from './json.js'
import { KeptReports } from './kept_reports.js'
import { wireJob, type EnqueueOptions } from './options.js'
import { Outcome } from './outcome.js'
import type { HandlerReport } from './records.js'

/** What a handler finds that {@link perform} runs: the options of its job are those of an enqueue. */
export interface PerformOptions extends EnqueueOptions {
  /** Which attempt it is, from 1. */
  attempt?: number | undefined
  /** What an earlier attempt left as its checkpoint. */
  checkpoint?: unknown
  /** Has `job.signal` abort as for a job that is cancelled: `AbortSignal.abort()` from the start. */
  cancelWhen?: AbortSignal | undefined
  /** What the handler throws is in `error`, instead of being thrown. */
  allowFailures?: boolean | undefined
}

/** What a handler did that {@link perform} ran. */
export interface Performed {
  /** What it said of its job, returned or thrown, as `retry`, `snooze`, `cancel` and `discard` make it; null when the job completed, and when there is an `error`. */
  outcome: Outcome | null
  /** The result that is kept of a job that completed; null when there is none. */
  result: unknown
  /** What it threw, with `allowFailures`. */
  error?: unknown
  /** Its progress, log and checkpoint; null when it reported nothing. */
  report: HandlerReport | null
}

type Settled = { value: unknown } | { error: unknown }

/**
 * Runs one handler by itself, without a store.
 *
 * ```ts
 * const { outcome, report } = await perform(sendMail, send, { to: 'a@example.com' }, { attempt: 4 })
 * assert.deepEqual(outcome, retry({ after: '1h', error: 'still failing' }))
 * ```
 *
 * Args go to JSON and back, and through the schema of their job, as on their way through a store. Retry policies, timeouts and the largest sizes of what is stored
 * are the worker's and the store's: to test them, `drain`. Rejects with `InvalidArgs` and `InvalidOption` as an enqueue does, and with what the handler throws other
 * than outcomes, unless `allowFailures` is set.
 */
export async function perform<J extends JobDefinition> (
  job: J, handler: Handler<J>, args: ArgsInput<J>, { attempt = 1, checkpoint, cancelWhen, allowFailures = false, ...options }: PerformOptions = {},
): Promise<Performed> {
  const registered: Registered = { job, one: handler }
  new Handlers().add(registered, handler) // refuses what is no handler
  await check(job, args)
  const reports = new KeptReports(attempt, checkpoint)
  const [settled] = await run([made(job, args, 1, attempt, reports, options)], registered, cancelWhen)
  return performed(settled!, reports, allowFailures)
}

/**
 * Runs the handler of a batch by itself, once for all of these args: what became of each job, in order. Options are those of all its jobs.
 *
 * ```ts
 * const [first, second] = await performBatch(indexEvent, index, [{ event: 1 }, { event: 2 }])
 * assert.deepEqual([first!.outcome, second!.outcome], [discard('odd'), null])
 * ```
 */
export async function performBatch<J extends JobDefinition> (
  job: J, handler: BatchHandler<J>, args: Array<ArgsInput<J>>, { attempt = 1, checkpoint, cancelWhen, allowFailures = false, ...options }: PerformOptions = {},
): Promise<Performed[]> {
  if (!Array.isArray(args) || args.length === 0) throw new InvalidOption('invalid_option', 'performBatch takes an array of args, one of each job, and at least one')
  const registered: Registered = { job, many: { maxSize: args.length, call: handler } }
  new Handlers().add(registered, handler)
  for (const each of args) await check(job, each)
  const reports = args.map(() => new KeptReports(attempt, checkpoint))
  const settled = await run(args.map((each, nth) => made(job, each, nth + 1, attempt, reports[nth]!, options)), registered, cancelWhen)
  return settled.map((each, nth) => performed(each, reports[nth]!, allowFailures))
}

/** What is told of a job that a handler ran. */
function performed (settled: Settled, reports: KeptReports, allowFailures: boolean): Performed {
  if ('error' in settled && !(settled.error instanceof Outcome)) {
    if (!allowFailures) throw settled.error
    return { outcome: null, result: null, error: settled.error, report: reports.report() }
  }
  const said = 'error' in settled ? ofError(settled.error) : ofValue(settled.value)
  const outcome = typeof said === 'object' ? new Outcome(said) : null
  return { outcome, result: typeof said === 'string' ? JSON.parse(said) : null, report: reports.report() }
}

/** A job as a worker would have it. */
function made (definition: JobDefinition, args: unknown, id: number, attempt: number, native: KeptReports, options: EnqueueOptions): Job {
  wireJob(definition.kind, definition.options, options) // refuses what no enqueue takes
  const all: EnqueueOptions = { ...definition.options, ...options }
  const text = encodeAll(definition.kind, [args])
  const numbers = Float64Array.of(0, 0, text.length - 1) // where its args end
  return new Job({ native, text, numbers }, 0, id, id, definition.kind, all.queue ?? 'default', attempt, all.maxAttempts ?? 20, all.priority ?? 0, Date.now(), 0, 0,
    JSON.parse(text)[0], attributes(all))
}

function attributes ({ key, meta, tags = [], expiresAt, expiresIn }: EnqueueOptions): Attributes {
  const expires = expiresIn === undefined ? expiresAt : new Date(Date.now() + milliseconds(expiresIn, 'expiresIn'))
  return { key: key ?? null, meta: meta === undefined ? null : JSON.parse(encode(meta, 'meta')), tags: [...tags], expires_at: expires?.toISOString() ?? null }
}

/** Runs the handler as a worker does: what became of each job. */
async function run (jobs: Job[], registered: Registered, cancelWhen?: AbortSignal): Promise<Settled[]> {
  const stop = (): void => { for (const job of jobs) job.interrupt('cancelled') }
  if (cancelWhen?.aborted) stop()
  cancelWhen?.addEventListener('abort', stop)
  const settled = new Map<Job, Settled>()
  await new Promise<void>(resolve => {
    const note = (job: Job, what: Settled): void => { if (settled.set(job, what).size === jobs.length) resolve() }
    const settle: Settle = { done: (job, value) => note(job, { value }), failed: (job, error) => note(job, { error }) }
    if (registered.many) void attemptMany(jobs, registered, settle)
    else attempt(jobs[0]!, registered, settle)
  })
  cancelWhen?.removeEventListener('abort', stop)
  for (const job of jobs) job.end()
  return jobs.map(job => settled.get(job)!)
}
