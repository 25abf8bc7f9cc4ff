import { InvalidOption } from './errors.js'
import type { Calls } from './calls.js'
import { answer } from './native.js'

/** What may end a call before its time. */
export interface Endable {
  /** When it aborts, the call rejects with its `reason`. What the call was to do has happened then, or not. */
  signal?: AbortSignal | undefined
}

/** A call of the core that a signal ends. */
export async function callUntil (signal: AbortSignal, client: Pick<Calls, 'number' | 'call' | 'end'>, op: string, payload: string): Promise<string> {
  const number = client.number()
  try {
    return await until(signal, answer(() => client.call(op, payload, number)))
  } finally {
    client.end(number)
  }
}

/** The same promise, but that it rejects with the reason of the signal where that comes first. What the promise is of goes on. */
export function until<T> (signal: AbortSignal | undefined, promise: Promise<T>): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const off = whenAborted(signal, () => reject(signal.reason))
    promise.then(resolve, reject).finally(off)
  })
}

/** Calls when the signal aborts, at once where it has; until what it returns is called. */
export function whenAborted (signal: AbortSignal | undefined, abort: () => void): () => void {
  if (!signal) return () => {}
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  return () => signal.removeEventListener('abort', abort)
}

/** The signal of options, which may be left out; `what` takes them. */
export function signalOf (options: Endable | undefined, what: string): AbortSignal | undefined {
  const signal = options?.signal
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new InvalidOption('invalid_option', `signal of ${what} must be an AbortSignal, such as AbortSignal.timeout(5_000), got ${typeof signal}`)
}
