import {
  context, createTraceState, isSpanContextValid, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags, type Attributes, type Context, type Span, type SpanContext,
  type Tracer, type TracerProvider,
} from '@opentelemetry/api'
import { Concluded, ofError, ofValue } from './conclusion.js'
import { milliseconds, type Duration } from './duration.js'
import type { Job } from './job.js'
import type { Sent, Traces } from './tracing.js'

export type { Sent, Traces } from './tracing.js'

/** How traces of jobs are made. */
export interface OpenTelemetryOptions {
  /** Where spans go. Default: where those of the program go. */
  provider?: TracerProvider | undefined
  /**
   * How soon after its enqueue a first attempt has to begin to be a part of the sender's trace. Default a minute. Later ones, and retries, are traces of their own
   * with a link; with 0 all are.
   */
  childWithin?: Duration | undefined
}

/**
 * Traces of jobs by OpenTelemetry: spans `send {queue}` and `process {queue}`, tied together by the W3C trace context in the jobs' meta.
 *
 * ```ts
 * const windlass = new Windlass(url, { traces: openTelemetry() })
 * ```
 *
 * Needs `@opentelemetry/api`. Batches and handlers in threads have spans of their enqueues only.
 */
export function openTelemetry ({ provider, childWithin = '1m' }: OpenTelemetryOptions = {}): Traces {
  // Asked for each time: the program's provider may be set later.
  const tracer = (): Tracer => (provider ?? trace).getTracer('windlass')
  const within = childWithin === 0 ? -1 : milliseconds(childWithin, 'childWithin')
  return {
    send: ({ queue, kind, count }: Sent, run) => {
      const attributes = { ...facts('send', queue), ...(count === 1 ? { 'windlass.job.kind': kind } : { 'messaging.batch.message_count': count }) }
      return tracer().startActiveSpan(`send ${queue}`, { kind: SpanKind.PRODUCER, attributes }, async span => {
        try {
          return await run(carried(span.spanContext()))
        } catch (error) {
          const { name, message } = error instanceof Error ? error : { name: 'unknown', message: String(error) }
          fail(span, name, message)
          throw error
        } finally {
          span.end()
        }
      })
    },
    process: (job, run) => {
      const sender = senderOf(job)
      const isChild = sender !== undefined && job.attempt === 1 && Math.abs(Date.now() - job.enqueuedAt.getTime()) <= within
      const parent: Context = isChild ? trace.setSpanContext(ROOT_CONTEXT, sender) : ROOT_CONTEXT
      const attributes = { ...facts('process', job.queue), 'messaging.message.id': String(job.id), 'windlass.job.kind': job.kind, 'windlass.job.attempt': job.attempt }
      const links = sender ? [{ context: sender }] : []
      const span = tracer().startSpan(`process ${job.queue}`, { kind: SpanKind.CONSUMER, attributes, links }, parent)
      return context.with(trace.setSpan(parent, span), async () => {
        try {
          const said = ofValue(await run())
          end(span, said)
          return new Concluded(said)
        } catch (error) {
          end(span, ofError(error))
          throw error
        }
      })
    },
  }
}

function facts (operation: string, queue: string): Attributes {
  return { 'messaging.system': 'windlass', 'messaging.operation.name': operation, 'messaging.operation.type': operation, 'messaging.destination.name': queue }
}

/** What a job's meta carries of a span that is recorded. */
function carried (span: SpanContext): Record<string, string> | undefined {
  if (!isSpanContextValid(span) || !(span.traceFlags & TraceFlags.SAMPLED)) return undefined
  const traceparent = `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`
  const tracestate = span.traceState?.serialize()
  return tracestate ? { traceparent, tracestate } : { traceparent }
}

/** The span that enqueued a job, if it says so. */
function senderOf ({ meta }: Job): SpanContext | undefined {
  const [, traceId, spanId, flags] = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/.exec(String(meta?.traceparent ?? '')) ?? []
  if (traceId === undefined || spanId === undefined) return undefined
  const sender: SpanContext = { traceId, spanId, traceFlags: parseInt(flags ?? '0', 16) & TraceFlags.SAMPLED, isRemote: true }
  if (typeof meta?.tracestate === 'string') sender.traceState = createTraceState(meta.tracestate)
  return isSpanContextValid(sender) ? sender : undefined
}

/** Ends the span of an attempt with what became of it. */
function end (span: Span, said: object | string | undefined): void {
  const { type = 'complete', error = '' } = (typeof said === 'object' ? said : {}) as { type?: string, error?: string }
  span.setAttribute('windlass.job.outcome', type)
  if (type === 'retry' || type === 'discard') fail(span, type, error.split('\n', 1)[0]!)
  span.end()
}

function fail (span: Span, type: string, message: string): void {
  span.setAttribute('error.type', type)
  span.setStatus({ code: SpanStatusCode.ERROR, message })
}
