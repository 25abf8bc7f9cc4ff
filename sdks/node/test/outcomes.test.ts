import assert from 'node:assert/strict'
import { cancel, defineJob, discard, retry, snooze } from 'windlass'
import pg from 'pg'
import { z } from 'zod'
import { ended, onBoth, onPostgres, onSqlite, Signal, started } from './support.js'

const any = defineJob<unknown>('any')
/** Arrays in arrays. */
const nested = (depth: number): unknown => depth === 0 ? 1 : [nested(depth - 1)]
const quiet = { queues: { default: 10 }, onError: () => {} }

onBoth('a handler says retry, snooze, cancel or discard, returned or thrown', async ({ windlass }, t) => {
  const say = defineJob<{ say: string, thrown?: boolean }>('say', { retryPolicy: { backoff: 'fixed', base: 0, jitter: 0 } })
  const said = { retry: retry({ after: '1h', error: 'later' }), snooze: snooze('1h'), cancel: cancel('unwanted'), discard: discard('bad \ud800') }
  const worker = await started(t, windlass.worker({ ...quiet, onError: error => assert.fail(String(error)) }).handle(say, async ({ say, thrown }) => {
    const outcome = said[say as keyof typeof said]
    if (thrown) throw outcome
    return outcome
  }))
  for (const thrown of [false, true]) {
    const names = Object.keys(said)
    const ids = await windlass.enqueueMany(say, names.map(say => ({ say, thrown })))
    await worker.untilIdle()
    const [a, b, c, d] = await Promise.all(ids.map(id => windlass.job(id)))
    assert.deepEqual([a!.state, a!.errors[0]!.error, a!.attempt], ['retryable', 'later', 1])
    assert.deepEqual([b!.state, b!.attempt, c!.state, c!.reason], ['scheduled', 0, 'cancelled', 'unwanted'])
    assert.deepEqual([d!.state, d!.errors.at(-1)?.error ?? d!.reason], ['discarded', 'bad \ufffd'])
  }
})

/** Such as a draft of immer's that is used when it is over. */
function revoked (): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

onBoth('whatever a handler throws becomes the error of its attempt', async ({ windlass }, t) => {
  const told: unknown[] = []
  const thrown: Array<[unknown, RegExp]> = [
    [new TypeError('no route', { cause: new Error('cable') }), /^TypeError: no route\n\s+at .*outcomes\.test[^]*caused by Error: cable/],
    ['text', /^text$/], [7, /^7$/], [null, /^null$/], [{ a: 1 }, /^{ a: 1 }$/], [undefined, /./],
    [Object.create(null), /Object/], [new Proxy(new Error('x'), { get () { throw new Error('mean') } }), /cannot be shown/],
    [revoked(), /cannot be shown/], [new Error('\ud800 \u0000 nul'), /nul/],
    [new AggregateError([new TypeError('refused'), 'b', 1, 2]), /^AggregateError: \none of 4: TypeError: refused\none of 4: 'b'\none of 4: 1\n\s+at /],
    [Object.assign(new AggregateError([]), { errors: 5 }), /^AggregateError: \n\s+at /],
  ]
  const fail = defineJob<{ nth: number, how: 'sync' | 'async' | 'then' }>('fail', { maxAttempts: 1 })
  const worker = windlass.worker({ queues: { default: 10 }, onError: error => { told.push(error) } }).handle(fail, ({ nth, how }) => {
    const error = thrown[nth]![0]
    if (how === 'sync') throw error
    if (how === 'async') return Promise.reject(error)
    return { then: (_: unknown, failed: (error: unknown) => void) => failed(error) }
  })
  await started(t, worker)
  for (const how of ['sync', 'async', 'then'] as const) {
    const ids = await windlass.enqueueMany(fail, thrown.map((_, nth) => ({ nth, how })))
    for (const [nth, id] of ids.entries()) {
      const job = await ended(windlass, id)
      assert.equal(job.state, 'discarded')
      assert.match(job.errors[0]!.error, thrown[nth]![1])
      assert.ok((job.errors[0]!.error.match(/^\s+at /gm)?.length ?? 0) <= 20)
    }
  }
  assert.equal(told.length, 3 * thrown.length)
})

onSqlite('odd return values are results, or none, and never fail their neighbours', async ({ windlass }, t) => {
  const circle: { self?: unknown } = {}
  circle.self = circle
  const odd: Array<[() => unknown, string, unknown]> = [
    [() => 'ok', 'completed', 'ok'], [() => undefined, 'completed', null], [() => null, 'completed', null], [() => 0, 'completed', 0],
    [() => false, 'completed', false], [() => () => 1, 'completed', null], [() => Symbol('x'), 'completed', null],
    [() => new Date(0), 'completed', '1970-01-01T00:00:00.000Z'], [() => ({ then: (done: (value: unknown) => void) => done(8) }), 'completed', 8],
    [() => ({ get then () { throw new Error('mean') } }), 'discarded', null], [revoked, 'discarded', null], [async () => [revoked()], 'discarded', null],
    [() => 1n, 'discarded', null], [() => circle, 'discarded', null], [() => NaN, 'discarded', null], [() => '\ud800', 'discarded', null],
    [() => 'x'.repeat(2 << 20), 'discarded', null], [() => nested(65), 'discarded', null], [() => nested(1_000), 'discarded', null],
  ]
  const job = defineJob<{ nth: number }>('odd', { maxAttempts: 1 })
  await started(t, windlass.worker({ queues: { default: 100 }, onError: () => {} }).handle(job, ({ nth }) => odd[nth]![0]()))
  const ids = await windlass.enqueueMany(job, odd.map((_, nth) => ({ nth })))
  for (const [nth, id] of ids.entries()) {
    const record = await ended(windlass, id)
    assert.deepEqual([nth, record.state, record.result], [nth, odd[nth]![1], odd[nth]![2]])
  }
})

onBoth('a batch is worked together, and each of its jobs has its own end', async ({ windlass }, t) => {
  const event = defineJob('event', { args: z.object({ n: z.number() }), maxAttempts: 1 })
  const sizes: number[] = []
  const worker = windlass.worker({ queues: { default: 300 }, onError: () => {} }).handleBatch(event, { maxSize: 100 }, async jobs => {
    sizes.push(jobs.length)
    if (jobs.some(job => job.args.n === -1)) throw new Error('all of them')
    return jobs.map(({ args: { n } }) => n % 10 === 0 ? discard('tenth') : n % 10 === 1 ? n : undefined)
  })
  const ids = await windlass.enqueueMany(event, Array.from({ length: 500 }, (_, n) => ({ n })))
  await started(t, worker)
  await worker.untilIdle()
  assert.deepEqual([worker.stats().completed, worker.stats().discarded, Math.max(...sizes) <= 100], [450, 50, true])
  assert.ok(sizes.length <= 50, `${sizes.length} batches`)
  assert.deepEqual([(await windlass.job(ids[0]!))!.state, await windlass.result(ids[1]!)], ['discarded', 1])
  const bad = await windlass.enqueue(event, { n: -1 })
  assert.match((await ended(windlass, bad)).errors[0]!.error, /all of them/)
})

onSqlite('a cancelled job leaves its batch, and the others go on', async ({ windlass }, t) => {
  const job = defineJob<number>('n')
  const [running, told, goOn] = [new Signal(), new Signal<string>(), new Signal()]
  await started(t, windlass.worker(quiet).handleBatch(job, { maxSize: 10 }, async jobs => {
    if (jobs.length < 2) return [snooze('10ms')] // a batch is what is there
    jobs.find(({ args }) => args === 1)!.signal.addEventListener('abort', event => told.fire((event.target as AbortSignal).reason.reason))
    running.fire()
    await goOn.promise
    return jobs.map(({ args, signal }) => signal.aborted ? cancel('as asked') : args)
  }))
  const ids = await windlass.enqueueMany(job, [1, 2])
  await running.promise
  assert.equal(await windlass.cancel(ids[0]!), 'running')
  assert.equal(await told.promise, 'cancelled')
  goOn.fire()
  const [cancelled, other] = [await ended(windlass, ids[0]!), await ended(windlass, ids[1]!)]
  assert.deepEqual([other.state, other.result, other.attempt, cancelled.state], ['completed', 2, 1, 'cancelled'])
})

onSqlite('a batch handler that returns something else fails its jobs with a clear error', async ({ windlass }, t) => {
  const job = defineJob<number>('n', { maxAttempts: 1 })
  await started(t, windlass.worker(quiet).handleBatch(job, { maxSize: 10 }, () => ['a', 'b', 'c', 'd']))
  assert.match((await ended(windlass, await windlass.enqueue(job, 1))).errors[0]!.error, /one outcome for each of its 1 jobs; it returned 4 outcomes/)
})

onSqlite('a result of a batch that cannot be read fails its own job alone', async ({ windlass }, t) => {
  const job = defineJob<number>('n', { maxAttempts: 1 })
  const worker = windlass.worker(quiet).handleBatch(job, { maxSize: 10 }, jobs => jobs.map(({ args }) => args === 2 ? revoked() : args))
  const ids = await windlass.enqueueMany(job, [1, 2, 3])
  await started(t, worker)
  const states: string[] = []
  for (const id of ids) states.push((await ended(windlass, id)).state)
  assert.deepEqual([states, worker.stats().refused], [['completed', 'discarded', 'completed'], 0])
})

onSqlite('the handler of a batch may take its array apart', async ({ windlass }, t) => {
  const job = defineJob<number>('taken')
  const worker = windlass.worker(quiet).handleBatch(job, { maxSize: 100 }, async jobs => {
    while (jobs.length > 0) jobs.splice(0, 3)
  })
  const ids = await windlass.enqueueMany(job, [1, 2, 3, 4, 5])
  await started(t, worker)
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
})

onSqlite('args that do not fit the schema fail their own job alone', async ({ windlass }, t) => {
  const strict = defineJob('strict', { args: z.object({ n: z.number() }), maxAttempts: 1 })
  const loose = defineJob<unknown>('strict', { maxAttempts: 1 })
  await started(t, windlass.worker(quiet).handle(strict, ({ n }) => n + 1))
  const [good, bad] = await windlass.enqueueMany(loose, [{ n: 1 }, { n: 'x' }])
  assert.equal((await ended(windlass, good!)).result, 2)
  assert.match((await ended(windlass, bad!)).errors[0]!.error, /args of kind "strict" do not fit its schema: n: /)
})

onSqlite('large args come a few at a time, and none is kept', async ({ windlass }, t) => {
  const big = defineJob<{ text: string }>('big')
  const text = 'é'.repeat(400_000)
  let batch = 0
  const most: number[] = []
  await started(t, windlass.worker({ ...quiet, queues: { default: 40 } }).handle(big, async (args, job) => {
    assert.deepEqual([args.text.length, job.argsJson.length], [400_000, 400_011])
    if (batch++ === 0) setImmediate(() => { most.push(batch); batch = 0 })
  }))
  const ids = await windlass.enqueueMany(big, Array.from({ length: 40 }, () => ({ text })))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  assert.ok(Math.max(...most) <= 2, `${Math.max(...most)} of them between two turns of the event loop`)
})

onSqlite('the text of each job\'s args is its own', async ({ windlass }, t) => {
  const seen = new Map<number, string>()
  const worker = await started(t, windlass.worker(quiet).handle(any, (_, job) => { seen.set(job.id, job.argsJson) }))
  const all = ['é😀', 2, { 'a\u2028': '"]' }, '\u0001']
  const ids = await windlass.enqueueMany(any, all)
  await worker.untilIdle()
  assert.deepEqual(ids.map(id => JSON.parse(seen.get(id)!)), all)
})

onPostgres('what JavaScript cannot say exactly is in the text of the args', async ({ windlass, url }, t) => {
  const seen: Array<[unknown, string]> = []
  const worker = await started(t, windlass.worker({ queues: { default: 1 } }).handle(any, (args, job) => { seen.push([args, job.argsJson]) }))
  const db = new pg.Client(url.split('?')[0])
  await db.connect()
  t.after(() => db.end())
  const schema = url.split('=')[1]
  await db.query(`select "${schema}".enqueue('any', '{"n": 9007199254740993}'), "${schema}".enqueue('any', '1180591620717411303424'), "${schema}".enqueue('any', '[1e300, -0.0, "\\u2028"]')`)
  await worker.untilIdle()
  assert.deepEqual(seen.map(([args]) => args), [{ n: 9007199254740992 }, 2 ** 70, [1e300, 0, '\u2028']])
  assert.deepEqual(seen.map(([, text]) => text.replaceAll(' ', '')).slice(0, 2), ['{"n":9007199254740993}', '1180591620717411303424'])
})
