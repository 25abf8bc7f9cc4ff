import assert from 'node:assert/strict'
import { test } from 'node:test'
import { callUntil } from '#internal/ending'
import { defineJob, InvalidOption, type Endable } from 'windlass'
import { LONG, onBoth, onSqlite, Signal, started } from './support.js'

const slow = defineJob<{ n: number }>('slow')
const reason = new Error('the user went away')

onBoth('a signal ends a wait, not the job', async ({ windlass }) => {
  const id = await windlass.enqueue(slow, { n: 1 })
  const gone = new AbortController()
  const waits = windlass.wait(id, '1h', { signal: gone.signal })
  setImmediate(() => gone.abort(reason))
  await assert.rejects(waits, reason)
  await assert.rejects(windlass.wait(id, '1h', { signal: AbortSignal.abort(reason) }), reason)
  await assert.rejects(windlass.actingAs('anna').wait(id, '1h', { signal: AbortSignal.timeout(5) }), { name: 'TimeoutError' })
  await assert.rejects(windlass.wait(id, '1h', { signal: AbortSignal.timeout(5) }), { name: 'TimeoutError' })
  assert.equal((await windlass.job(id))!.state, 'available')
  assert.equal(await windlass.cancel(id), 'cancelled')
  assert.equal((await windlass.wait(id, LONG, { signal: new AbortController().signal }))!.state, 'cancelled')
})

test('the call itself is ended, and its number is free whatever comes of it', async () => {
  const calls: unknown[] = []
  let settle: { resolve: (text: string) => void, reject: (error: unknown) => void }
  let last = 0
  const client = {
    number: () => ++last,
    call: (op: string, _: string, number?: number) => new Promise<string>((resolve, reject) => { calls.push(['call', op, number]); settle = { resolve, reject } }),
    end: (number: number) => { calls.push(['end', number]); settle.reject(new Error('ended')) },
  }
  const stop = new AbortController()
  const call = callUntil(stop.signal, client, 'wait', '{}')
  const [[, , number]] = calls as [[string, string, number]]
  stop.abort(reason)
  await assert.rejects(call, reason)
  assert.deepEqual(calls, [['call', 'wait', number], ['end', number]])
  const answered = callUntil(new AbortController().signal, client, 'wait', '{}')
  settle!.resolve('null')
  assert.equal(await answered, 'null')
  assert.deepEqual(calls.slice(2), [['call', 'wait', number + 1], ['end', number + 1]])
})

onBoth('a signal ends what goes on for long over many jobs', async ({ windlass }) => {
  await windlass.enqueueMany(slow, [1, 2, 3].map(n => ({ n })))
  const stop = new AbortController()
  const deleting = windlass.delete({ kind: 'slow', perSecond: 0.001, signal: stop.signal })
  setImmediate(() => stop.abort(reason))
  await assert.rejects(deleting, reason)
  assert.ok((await windlass.jobs({ kind: 'slow' })).jobs.length >= 2)
  assert.equal((await windlass.delete({ kind: 'slow', dryRun: true, signal: new AbortController().signal })).dryRun, true)
})

onSqlite('a signal ends run() gracefully', async ({ windlass }) => {
  const running = new Signal()
  const free = new Signal()
  const stop = new AbortController()
  const id = await windlass.enqueue(slow, { n: 1 })
  const worker = windlass.worker({ queues: { default: 1 } }).handle(slow, async () => { running.fire(); await free.promise })
  const runs = worker.run({ signal: stop.signal })
  await running.promise
  stop.abort()
  free.fire() // what runs ends
  await runs
  assert.equal((await windlass.job(id))!.state, 'completed')
  const never = windlass.worker({ queues: { default: 1 } }).handle(slow, () => assert.fail('it does not run'))
  await windlass.enqueue(slow, { n: 2 })
  await never.run({ signal: AbortSignal.abort() })
  assert.equal((await windlass.status()).workers.length, 1, 'it was not even announced')
})

onSqlite('a signal has close() hand back what runs, and ends the waiting for a worker', async ({ windlass }, t) => {
  const running = new Signal()
  const id = await windlass.enqueue(slow, { n: 1 })
  const worker = await started(t, windlass.worker({ queues: { default: 1 }, gracePeriod: '1h' })
    .handle(slow, async (_, { signal }) => { running.fire(); await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) }))
  await running.promise
  await assert.rejects(worker.untilIdle({ signal: AbortSignal.abort(reason) }), reason)
  const idle = worker.untilIdle()
  const gone = new AbortController()
  const ended = worker.ended({ signal: gone.signal })
  gone.abort(reason)
  await assert.rejects(ended, reason)
  await worker.close({ signal: AbortSignal.abort() })
  await idle // though a job is left: nobody works it here
  const { state, attempt } = (await windlass.job(id))!
  assert.deepEqual([state, attempt], ['available', 0])
})

onSqlite('what is no signal is refused', async ({ windlass }) => {
  const worker = windlass.worker({ queues: { default: 1 } }).handle(slow, () => {})
  const odd = { signal: new AbortController() } as unknown as Endable
  const refused = (error: unknown) => error instanceof InvalidOption && /must be an AbortSignal, such as AbortSignal\.timeout/.test(error.message)
  for (const call of [
    () => windlass.wait(1, '1s', odd), () => worker.run(odd), () => worker.close(odd), () => worker.ended(odd), () => worker.untilIdle(odd),
    () => windlass.delete({ kind: 'slow', ...odd }), async () => windlass.events(odd),
  ]) await assert.rejects(call, refused)
})
