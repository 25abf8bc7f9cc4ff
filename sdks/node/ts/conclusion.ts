import { errorText } from './error_text.js'
import { JobInterrupted, type StopReason } from './job.js'
import { encodeStored } from './json.js'
import { Outcome, text } from './outcome.js'

/** What is to be said of a job: an outcome's message, the JSON text of a result, or nothing, for it completed. */
export type Said = Outcome['message'] | string | undefined

/** What a handler's return value came to, for whoever asks next: a large result is written once. */
export class Concluded {
  constructor (readonly said: Said) {}
}

/** What a handler's return value comes to: nothing to be said (it completed), or a message of the stdio protocol without a ticket. */
export function ofValue (value: unknown): Said {
  if (value === undefined || value === null || typeof value === 'function' || typeof value === 'symbol') return undefined
  if (value instanceof Outcome) return value.message.type === 'complete' ? ofValue(value.result) : value.message
  try {
    return value instanceof Concluded ? value.said : encodeStored(value, 'the result')
  } catch (error) {
    // Trying again would not help.
    return { type: 'discard', error: text(`the result cannot be stored: ${error instanceof Error ? error.message : error}`) }
  }
}

/** What something thrown comes to. */
export function ofError (error: unknown): Outcome['message'] {
  if (error instanceof Outcome) return error.message
  const reason = stopped(error)
  return { type: 'retry', error: reason ? `stopped: ${reason}` : errorText(error) }
}

/** Why a handler ended that did what `job.signal` said, which is no failure of its own. */
export function stopped (error: unknown): StopReason | undefined {
  try {
    // What takes a signal rejects with its reason, as fetch; or with an AbortError that has it as cause, as node:timers/promises.
    const reason = error instanceof Error && error.name === 'AbortError' ? error.cause : error
    return reason instanceof JobInterrupted ? reason.reason : undefined
  } catch { // anything may be thrown, also what cannot be looked at
    return undefined
  }
}

/** The line that says it: a text is a result. */
export function line (ticket: number, said: object | string): string {
  if (typeof said === 'string') return `{"type":"complete","ticket":${ticket},"result":${said}}`
  return JSON.stringify({ ...said, ticket })
}
