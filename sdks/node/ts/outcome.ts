import { brand } from './brand.js'
import { milliseconds, type Duration } from './duration.js'

/** What a handler says of its job, returned or thrown: made by {@link retry}, {@link snooze}, {@link cancel} and {@link discard}. */
export class Outcome {
  /** @internal The fields of a message of the stdio protocol. */
  readonly message: Readonly<Record<string, string | number | undefined>>

  /** @internal */
  constructor (message: Record<string, string | number | undefined>) { this.message = message }
}
brand(Outcome, 'outcome')

/** The attempt failed: again after this time, or after the delay of the job's retry policy. */
export function retry (options: { after?: Duration, error?: string } = {}): Outcome {
  const after = options.after === undefined ? undefined : milliseconds(options.after, 'after')
  return new Outcome({ type: 'retry', error: text(options.error ?? 'the handler asked for a retry'), after_ms: after })
}

/** Not now: again after this time. Uses up no attempt. */
export function snooze (time: Duration): Outcome {
  return new Outcome({ type: 'snooze', after_ms: milliseconds(time, 'the time to snooze') })
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
