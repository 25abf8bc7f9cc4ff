import { InvalidOption } from './errors.js'
import type { Job } from './job.js'

/** What makes spans of enqueues and attempts: `openTelemetry()` of `windlass/otel` makes one. */
export interface Traces {
  /** Runs an enqueue within its span. It is given what the jobs' meta is to carry, if anything. */
  send<T> (what: Sent, run: (carried: Record<string, string> | undefined) => Promise<T>): Promise<T>
  /** Runs a handler within the span of its attempt; a promise of its value, or of what that came to. */
  process (job: Job, run: () => unknown): unknown
}

/** What is enqueued by one call. */
export interface Sent { queue: string, kind: string, count: number }

/** The most bytes of meta that the store takes. */
const MOST = 8192

/** Meta with what carries a trace. A job is never refused for its trace: where there is no room, or a trace already, it stays as it is. */
export function carrying (meta: Record<string, unknown> | undefined, carried: Record<string, string> | undefined): Record<string, unknown> | undefined {
  if (!carried || meta?.traceparent !== undefined) return meta
  const whole = { ...carried, ...meta }
  try {
    return Buffer.byteLength(JSON.stringify(whole)) <= MOST ? whole : meta
  } catch { // meta has no JSON form, which is said where it is written
    return meta
  }
}

export function checkTraces (traces: unknown): void {
  const { send, process } = (traces ?? {}) as Partial<Traces>
  if (typeof send === 'function' && typeof process === 'function') return
  throw new InvalidOption('invalid_option', `traces must be what openTelemetry() of windlass/otel makes, got ${traces === null ? 'null' : typeof traces}`)
}
