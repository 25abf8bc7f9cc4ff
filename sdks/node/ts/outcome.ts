import { brand } from './brand.js'
import { milliseconds, type Duration } from './duration.js'
import { InvalidOption } from './errors.js'
import { onlyKnown } from './known.js'

/** What a handler says of its job, returned or thrown: made by {@link retry}, {@link snooze}, {@link cancel}, {@link discard} and {@link complete}. */
export class Outcome {
  /** @internal The fields of a message of the stdio protocol. */
  readonly message: Readonly<Record<string, string | number | undefined>>

  /** @internal `result` is of one that completed; `thrown` has what the handler threw, where that was no outcome. */
  constructor (message: Record<string, string | number | undefined>, readonly result?: unknown, readonly thrown?: { readonly error: unknown }) { this.message = message }

  /** What becomes of the job. */
  get type (): 'complete' | 'retry' | 'snooze' | 'cancel' | 'discard' { return this.message.type as 'complete' }
  /** Why an attempt failed, or a job was discarded or cancelled, as the store keeps it. */
  get error (): string | undefined { return (this.message.error ?? this.message.reason) as string | undefined }
}
brand(Outcome, 'outcome')

/** The job is done, with this result. A handler just returns the result; this is for {@link Middleware}. */
export function complete (result?: unknown): Outcome {
  return new Outcome({ type: 'complete' }, result)
}

/** 100 years, as the engine counts them. */
const FURTHEST = 3_162_240_000_000

/** How long until a job runs again. */
function delay (time: Duration, what: string): number {
  const ms = milliseconds(time, what)
  if (ms > FURTHEST) throw new InvalidOption('invalid_option', `${what} must be at most 100 years, got ${typeof time === 'string' ? JSON.stringify(time) : time}`)
  return ms
}

/** The attempt failed: again after this time, or after the delay of the job's retry policy. */
export function retry (options: { after?: Duration | undefined, error?: string | undefined } = {}): Outcome {
  onlyKnown(options, ['after', 'error'], 'retry')
  const after = options.after === undefined ? undefined : delay(options.after, 'after')
  return new Outcome({ type: 'retry', error: text(options.error ?? 'the handler asked for a retry'), after_ms: after })
}

/** Not now: again after this time. Uses up no attempt. */
export function snooze (time: Duration): Outcome {
  return new Outcome({ type: 'snooze', after_ms: delay(time, 'the time to snooze') })
}

/** The job is no longer wanted. */
export function cancel (reason: string): Outcome {
  return new Outcome({ type: 'cancel', reason: text(reason) })
}

/** The job can never succeed: it is dead, and stays readable. */
export function discard (error: string): Outcome {
  return new Outcome({ type: 'discard', error: text(error) })
}

/** A text that every store can keep: half of a surrogate pair is no Unicode. */
export function text (value: unknown): string {
  return String(value).toWellFormed()
}
