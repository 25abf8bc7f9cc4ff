import assert from 'node:assert/strict'
import { test } from 'node:test'
import { context, SpanKind, SpanStatusCode, type Attributes } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AlwaysOffSampler, BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan, type Sampler } from '@opentelemetry/sdk-trace-base'
import { defineJob, discard, InvalidOption, Windlass } from 'windlass'
import { openTelemetry, type OpenTelemetryOptions } from 'windlass/otel'
import { ended, onBoth, onPostgres, started, type Store } from './support.js'

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

class Recorded {
  readonly #exporter = new InMemorySpanExporter()
  readonly provider: BasicTracerProvider

  constructor (sampler?: Sampler) {
    this.provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#exporter)], ...sampler && { sampler } })
  }

  windlass (t: { after (f: () => unknown): void }, { url }: Store, options: OpenTelemetryOptions = {}): Windlass {
    const windlass = new Windlass(url, { traces: openTelemetry({ provider: this.provider, ...options }) })
    t.after(() => windlass.close())
    return windlass
  }

  named (name: string): ReadableSpan[] {
    const spans = this.#exporter.getFinishedSpans()
    const found = spans.filter(span => span.name === name)
    assert.ok(found.length > 0, `${name} is not among ${spans.map(({ name }) => name)}`)
    return found
  }

  one (name: string): ReadableSpan {
    const found = this.named(name)
    assert.equal(found.length, 1)
    return found[0]!
  }
}

const id = (span: ReadableSpan): string => span.spanContext().spanId
const traceId = (span: ReadableSpan): string => span.spanContext().traceId
const queue = { queues: { images: 10, default: 10 }, onError: () => {} }

onBoth('an attempt is a part of the trace that enqueued it', async (store, t) => {
  const recorded = new Recorded()
  const windlass = recorded.windlass(t, store)
  const tracer = recorded.provider.getTracer('test')
  const resize = defineJob('resize', { queue: 'images' })
  const stored = await tracer.startActiveSpan('GET /upload', async span => {
    try {
      return await windlass.enqueue(resize, {})
    } finally {
      span.end()
    }
  })
  await started(t, windlass.worker(queue).handle(resize, async () => {
    await Promise.resolve()
    tracer.startSpan('read file').end()
    return 7
  }))
  assert.equal((await ended(windlass, stored)).result, 7)
  const [request, send, process, read] = ['GET /upload', 'send images', 'process images', 'read file'].map(name => recorded.one(name)) as [ReadableSpan, ReadableSpan, ReadableSpan, ReadableSpan]
  assert.deepEqual([send.kind, process.kind], [SpanKind.PRODUCER, SpanKind.CONSUMER])
  assert.deepEqual([send, process, read].map(span => span.parentSpanContext?.spanId), [id(request), id(send), id(process)])
  assert.deepEqual(new Set([request, send, process, read].map(traceId)).size, 1)
  assert.deepEqual(process.links.map(({ context }) => context.spanId), [id(send)])
  assert.deepEqual(process.attributes, {
    'messaging.system': 'windlass', 'messaging.operation.name': 'process', 'messaging.operation.type': 'process', 'messaging.destination.name': 'images',
    'messaging.message.id': String(stored), 'windlass.job.kind': 'resize', 'windlass.job.attempt': 1, 'windlass.job.outcome': 'complete',
  } satisfies Attributes)
  assert.equal(process.status.code, SpanStatusCode.UNSET)
})

onBoth('a retry is a trace of its own with a link', async (store, t) => {
  const recorded = new Recorded()
  const windlass = recorded.windlass(t, store)
  const fails = defineJob('fails', { maxAttempts: 2, retryPolicy: { backoff: 'fixed', base: 0 } })
  const stored = await windlass.enqueue(fails, {})
  await started(t, windlass.worker(queue).handle(fails, () => { throw new Error('no disk') }))
  await ended(windlass, stored)
  const send = recorded.one('send default')
  const [first, second] = recorded.named('process default') as [ReadableSpan, ReadableSpan]
  assert.deepEqual([first.parentSpanContext?.spanId, second.parentSpanContext], [id(send), undefined])
  assert.deepEqual(second.links.map(({ context }) => context.spanId), [id(send)])
  for (const span of [first, second]) assert.deepEqual(span.status, { code: SpanStatusCode.ERROR, message: 'Error: no disk' })
  assert.deepEqual([first, second].map(({ attributes }) => attributes['windlass.job.attempt']), [1, 2])
})

onBoth('zero links only, and an outcome is told', async (store, t) => {
  const recorded = new Recorded()
  const windlass = recorded.windlass(t, store, { childWithin: 0 })
  const never = defineJob('never')
  const stored = await windlass.enqueue(never, {})
  await started(t, windlass.worker(queue).handle(never, () => discard('no such image')))
  await ended(windlass, stored)
  const span = recorded.one('process default')
  assert.deepEqual([span.parentSpanContext, span.links.length, span.attributes['windlass.job.outcome'], span.status.message], [undefined, 1, 'discard', 'no such image'])
})

onBoth('jobs of a batch share a span; no job is refused for its trace', async (store, t) => {
  const recorded = new Recorded()
  const windlass = recorded.windlass(t, store)
  const job = defineJob('one')
  const metaOf = async (id: number) => (await windlass.job(id))!.meta
  const stored = await windlass.enqueueMany(job, [{}, {}, {}])
  const send = recorded.one('send default')
  assert.equal(send.attributes['messaging.batch.message_count'], 3)
  for (const each of stored) assert.equal((await metaOf(each))!.traceparent, `00-${traceId(send)}-${id(send)}-01`)
  assert.deepEqual(await windlass.enqueueMany(job, []), [])
  await assert.rejects(windlass.enqueue(job, {}, { meta: { id: 1n } }), { name: 'InvalidOption', message: /a BigInt in meta has no JSON form/ })
  for (const meta of [{ x: 'x'.repeat(8170) }, { traceparent: TRACEPARENT }]) assert.deepEqual(await metaOf(await windlass.enqueue(job, {}, { meta })), meta)
  await assert.rejects(windlass.enqueue(job, {}, { priority: 1000 }), InvalidOption)
  assert.equal(recorded.named('send default').at(-1)!.status.code, SpanStatusCode.ERROR)
  const unrecorded = new Recorded(new AlwaysOffSampler()).windlass(t, store)
  assert.equal(await metaOf(await unrecorded.enqueue(job, {})), null)
})

onPostgres('jobs of a transaction carry their trace', async (store, t) => {
  const recorded = new Recorded()
  const windlass = recorded.windlass(t, store)
  const { default: pg } = await import('pg')
  const client = new pg.Client(store.url)
  await client.connect()
  try {
    const stored = await windlass.enqueueIn(client, defineJob('one'), {}, { meta: { tenant: 'acme' } })
    const send = recorded.one('send default')
    assert.deepEqual((await windlass.job(stored))!.meta, { traceparent: `00-${traceId(send)}-${id(send)}-01`, tenant: 'acme' })
  } finally {
    await client.end()
  }
})

test('traces that are none are refused', () => {
  assert.throws(() => new Windlass('sqlite:x.db', { traces: true as never }), /traces must be what openTelemetry\(\) of windlass\/otel makes, got boolean/)
})
