import { attempt } from './attempt.js'
import { ofError, ofValue } from './conclusion.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds } from './duration.js'
import { check, encodeAll } from './enqueue.js'
import { Handlers, type Handler, type Registered } from './handlers.js'
import { Job, type Attributes } from './job.js'
import { encode } from './json.js'
import { KeptReports } from './kept_reports.js'
import { wireJob, type EnqueueOptions } from './options.js'
import { Outcome } from './outcome.js'
import type { HandlerReport } from './records.js'

/** What a handler finds that {@link perform} runs: the options of its job are those of an enqueue. */
export interface PerformOptions extends EnqueueOptions {
  /** Which attempt it is, from 1. */
  attempt?: number
  /** What an earlier attempt left as its checkpoint. */
  checkpoint?: unknown
  /** Has `job.signal` abort as for a job that is cancelled: `AbortSignal.abort()` from the start. */
  cancelWhen?: AbortSignal
  /** What the handler throws is in `error`, instead of being thrown. */
  allowFailures?: boolean
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
  const settled = await run(made(job, args, attempt, reports, options), registered, cancelWhen)
  if ('error' in settled && !(settled.error instanceof Outcome)) {
    if (!allowFailures) throw settled.error
    return { outcome: null, result: null, error: settled.error, report: reports.report() }
  }
  const said = 'error' in settled ? ofError(settled.error) : ofValue(settled.value)
  const outcome = typeof said === 'object' ? new Outcome(said) : null
  return { outcome, result: typeof said === 'string' ? JSON.parse(said) : null, report: reports.report() }
}

/** A job as a worker would have it. */
function made (definition: JobDefinition, args: unknown, attempt: number, native: KeptReports, options: EnqueueOptions): Job {
  wireJob(definition.kind, definition.options, options) // refuses what no enqueue takes
  const all: EnqueueOptions = { ...definition.options, ...options }
  const text = encodeAll(definition.kind, [args])
  const numbers = Float64Array.of(0, 0, text.length - 1) // where its args end
  return new Job({ native, text, numbers }, 0, 1, 1, definition.kind, all.queue ?? 'default', attempt, all.maxAttempts ?? 20, all.priority ?? 0, Date.now(), 0,
    JSON.parse(text)[0], attributes(all))
}

function attributes ({ key, meta, tags = [], expiresAt, expiresIn }: EnqueueOptions): Attributes {
  const expires = expiresIn === undefined ? expiresAt : new Date(Date.now() + milliseconds(expiresIn, 'expiresIn'))
  return { key: key ?? null, meta: meta === undefined ? null : JSON.parse(encode(meta, 'meta')), tags: [...tags], expires_at: expires?.toISOString() ?? null }
}

/** Runs the handler as a worker does. */
async function run (job: Job, registered: Registered, cancelWhen?: AbortSignal): Promise<Settled> {
  const stop = (): void => job.interrupt('cancelled')
  if (cancelWhen?.aborted) stop()
  cancelWhen?.addEventListener('abort', stop)
  const settled = await new Promise<Settled>(resolve => {
    attempt(job, registered, { done: (_, value) => resolve({ value }), failed: (_, error) => resolve({ error }) })
  })
  cancelWhen?.removeEventListener('abort', stop)
  job.end()
  return settled
}
