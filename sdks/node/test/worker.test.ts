import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cancel, defineJob, discard, InvalidOption, JobInterrupted, LeaseLost, retry, snooze, type Job } from 'windlass'
import pg from 'pg'
import { z } from 'zod'
import { ended, onBoth, onPostgres, onSqlite, Signal, started } from './support.js'

const any = defineJob<unknown>('any')
/** Arrays in arrays. */
const nested = (depth: number): unknown => depth === 0 ? 1 : [nested(depth - 1)]
const quiet = { queues: { default: 10 }, onError: () => {} }

onBoth('a job is worked with all that is known of it, and its return value is its result', async ({ windlass }, t) => {
  const mail = defineJob('mail', { args: z.object({ to: z.string(), copies: z.coerce.number().default(1) }), queue: 'mail' })
  const seen = new Signal<Job<unknown>>()
  await started(t, windlass.worker({ queues: { mail: 2 }, name: 'mailer' }).handle(mail, async ({ to, copies }, job) => {
    seen.fire(job)
    assert.deepEqual([job.argsJson.replaceAll(' ', ''), job.args], ['{"to":"a"}', { to: 'a', copies: 1 }])
    return { sent: to.repeat(copies) }
  }))
  const id = await windlass.enqueue(mail, { to: 'a' }, { key: 'acme', meta: { r: 1 }, tags: ['x'], priority: 4, maxAttempts: 3, expiresIn: '1h' })
  const record = await ended(windlass, id)
  assert.deepEqual([record.state, record.result, await windlass.result(id)], ['completed', { sent: 'a' }, { sent: 'a' }])
  assert.deepEqual((await windlass.status()).workers.map(({ name, queues, live }) => [name, queues, live]), [['mailer', ['mail'], true]])
  const job = await seen.promise
  assert.deepEqual([job.id, job.kind, job.queue, job.priority, job.attempt, job.maxAttempts, job.crashCount], [id, 'mail', 'mail', 4, 1, 3, 0])
  assert.deepEqual([job.key, job.meta, job.tags, job.enqueuedAt], ['acme', { r: 1 }, ['x'], record.enqueuedAt])
  assert.ok(job.expiresAt!.getTime() > job.enqueuedAt.getTime())
})

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

onBoth('whatever a handler throws becomes the error of its attempt', async ({ windlass }, t) => {
  const told: unknown[] = []
  const thrown: Array<[unknown, RegExp]> = [
    [new TypeError('no route', { cause: new Error('cable') }), /^TypeError: no route\n\s+at .*worker\.test[^]*caused by Error: cable/],
    ['text', /^text$/], [7, /^7$/], [null, /^null$/], [{ a: 1 }, /^{ a: 1 }$/], [undefined, /./],
    [Object.create(null), /Object/], [new Proxy(new Error('x'), { get () { throw new Error('mean') } }), /cannot be shown/],
    [new Error('\ud800 \u0000 nul'), /nul/],
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
    [() => ({ get then () { throw new Error('mean') } }), 'discarded', null],
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

onSqlite('a batch handler that returns something else fails its jobs with a clear error', async ({ windlass }, t) => {
  const job = defineJob<number>('n', { maxAttempts: 1 })
  await started(t, windlass.worker(quiet).handleBatch(job, { maxSize: 10 }, () => ['a', 'b', 'c', 'd']))
  assert.match((await ended(windlass, await windlass.enqueue(job, 1))).errors[0]!.error, /one outcome for each of its 1 jobs; it returned 4 outcomes/)
})

onSqlite('args that do not fit the schema fail their own job alone', async ({ windlass }, t) => {
  const strict = defineJob('strict', { args: z.object({ n: z.number() }), maxAttempts: 1 })
  const loose = defineJob<unknown>('strict', { maxAttempts: 1 })
  await started(t, windlass.worker(quiet).handle(strict, ({ n }) => n + 1))
  const [good, bad] = await windlass.enqueueMany(loose, [{ n: 1 }, { n: 'x' }])
  assert.equal((await ended(windlass, good!)).result, 2)
  assert.match((await ended(windlass, bad!)).errors[0]!.error, /args of kind "strict" do not fit its schema: n: /)
})

onBoth('progress, log and checkpoint are kept, and the next attempt finds the checkpoint', async ({ windlass }, t) => {
  const job = defineJob('import', { retryPolicy: { backoff: 'fixed', base: 0 } })
  let kept: Job<unknown> | undefined
  await started(t, windlass.worker(quiet).handle(job, async (_, job) => {
    kept = job
    const last = await job.lastCheckpoint<{ part: number }>()
    if (last) return last.part
    job.log('half \ud800 way')
    job.progress(50, 'part 2')
    await job.checkpoint({ part: 2 })
    await assert.rejects(job.checkpoint('\ud800'), /surrogate/)
    await assert.rejects(job.checkpoint(1n), /the checkpoint cannot be written/)
    assert.throws(() => job.progress(101), InvalidOption)
    throw new Error('cut off')
  }))
  const id = await windlass.enqueue(job, {})
  const record = await ended(windlass, id)
  assert.deepEqual([record.result, record.attempt, record.report!.progress], [2, 2, { percent: 50, note: 'part 2' }])
  assert.deepEqual([record.report!.log.length, await windlass.checkpoint(id)], [1, { part: 2 }])
  // A job that is over holds nothing and says so.
  assert.throws(() => kept!.argsJson, LeaseLost)
  assert.throws(() => kept!.log('late'), /is over/)
  assert.throws(() => kept!.progress(1), LeaseLost)
  await assert.rejects(kept!.checkpoint(1), LeaseLost)
  await assert.rejects(kept!.lastCheckpoint(), LeaseLost)
})

onBoth('a cancelled job is told by its signal', async ({ windlass }, t) => {
  const running = new Signal<AbortSignal>()
  await started(t, windlass.worker(quiet).handle(any, async (_, job) => {
    running.fire(job.signal)
    await new Promise((_, reject) => job.signal.addEventListener('abort', () => reject(job.signal.reason)))
  }))
  const id = await windlass.enqueue(any, {})
  const signal = await running.promise
  assert.equal(signal.aborted, false)
  assert.equal(await windlass.cancel(id), 'running')
  assert.equal((await ended(windlass, id)).state, 'cancelled')
  assert.deepEqual([signal.reason instanceof JobInterrupted, signal.reason.reason], [true, 'cancelled'])
})

onSqlite('a signal that is first asked for after the interrupt is aborted', async ({ windlass }, t) => {
  const [running, told] = [[new Signal(), new Signal()], new Signal()]
  await started(t, windlass.worker(quiet).handle(defineJob<number>('any'), async (nth, job) => {
    running[nth]!.fire()
    // The second is cancelled after the first: when it hears of it, the first was told, too.
    if (nth === 1) return new Promise<void>(done => job.signal.addEventListener('abort', () => { setImmediate(told.fire); done() }))
    await told.promise
    return { aborted: job.signal.aborted, reason: job.signal.reason.reason }
  }))
  const [first, second] = await windlass.enqueueMany(any, [0, 1])
  await Promise.all(running.map(({ promise }) => promise))
  assert.equal(await windlass.cancel(first!), 'running')
  assert.equal(await windlass.cancel(second!), 'running')
  assert.deepEqual((await ended(windlass, first!)).result, { aborted: true, reason: 'cancelled' })
})

onBoth('what is handed in after the job was taken away is refused, and the job runs again', async ({ windlass }, t) => {
  const job = defineJob('slow', { timeout: 20, retryPolicy: { backoff: 'fixed', base: 0, jitter: 0 } })
  const late = new Signal()
  const reasons: string[] = []
  let runs = 0
  const worker = await started(t, windlass.worker(quiet).handle(job, async (_, job) => {
    if (++runs > 1) return runs
    job.signal.addEventListener('abort', () => reasons.push(job.signal.reason.reason))
    await late.promise
    return 'late'
  }))
  const id = await windlass.enqueue(job, {})
  const record = await ended(windlass, id)
  assert.deepEqual([record.result, record.attempt, runs, reasons], [2, 2, 2, ['timeout']])
  assert.match(record.errors[0]!.error, /timeout after 20ms/)
  late.fire()
  await new Promise(setImmediate)
  await worker.close()
  assert.equal(worker.stats().refused, 1)
  assert.equal((await windlass.job(id))!.result, 2)
})

onSqlite('a blocked event loop keeps its jobs: the lease is renewed beside it', async ({ windlass }, t) => {
  let runs = 0
  const worker = windlass.worker({ ...quiet, lease: '1s' }).handle(any, () => {
    runs++
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_500) // nothing else happens in this thread
  })
  const ids = await windlass.enqueueMany(any, [1, 2])
  // Another worker that would rescue them.
  await started(t, windlass.worker({ ...quiet, lease: '1s', queues: { other: 1 } }).handle(any, () => {}))
  await started(t, worker)
  for (const id of ids) assert.deepEqual([(await ended(windlass, id)).state, (await windlass.job(id))!.crashCount], ['completed', 0])
  assert.equal(runs, 2)
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
  const seen: string[] = []
  const worker = await started(t, windlass.worker(quiet).handle(any, (_, job) => { seen.push(job.argsJson) }))
  await windlass.enqueueMany(any, ['é😀', 2, { 'a\u2028': '"]' }, '\u0001'])
  await worker.untilIdle()
  assert.deepEqual(seen.map(text => JSON.parse(text)), ['é😀', 2, { 'a\u2028': '"]' }, '\u0001'])
})

onPostgres('what JavaScript cannot say exactly is in the text of the args', async ({ windlass, url }, t) => {
  const seen: Array<[unknown, string]> = []
  const worker = await started(t, windlass.worker(quiet).handle(any, (args, job) => { seen.push([args, job.argsJson]) }))
  const db = new pg.Client(url.split('?')[0])
  await db.connect()
  t.after(() => db.end())
  const schema = url.split('=')[1]
  await db.query(`select "${schema}".enqueue('any', '{"n": 9007199254740993}'), "${schema}".enqueue('any', '1180591620717411303424'), "${schema}".enqueue('any', '[1e300, -0.0, "\\u2028"]')`)
  await worker.untilIdle()
  assert.deepEqual(seen.map(([args]) => args), [{ n: 9007199254740992 }, 2 ** 70, [1e300, 0, '\u2028']])
  assert.deepEqual(seen.map(([, text]) => text.replaceAll(' ', '')).slice(0, 2), ['{"n":9007199254740993}', '1180591620717411303424'])
})

test('what cannot be handled is refused where it is registered, and named', async () => {
  const { Windlass } = await import('windlass')
  const windlass = new Windlass('sqlite:never-opened.db')
  const worker = () => windlass.worker({ queues: { default: 1 } })
  for (const [call, words] of [
    [() => worker().handle(any, () => {}).handle(any, () => {}), /two handlers for "any"/],
    [() => worker().handle(any, undefined as never), /the handler of "any" must be a function, got undefined/],
    [() => worker().handle(any, function * () {}), /is a generator function/],
    [() => worker().handle(any, async function * () {}), /is a generator function/],
    [() => worker().handle('any' as never, () => {}), /made by defineJob first, got string/],
    [() => worker().handleBatch(any, { maxSize: 0 }, () => {}), /maxSize of the handler of "any" must be 1 to 10000, got 0/],
    [() => windlass.worker({} as never), /name the queues/],
    [() => defineJob(''), /a job needs a kind/],
    [() => defineJob('x', { args: { to: 'string' } as never }), /must be a Standard Schema/],
    [() => worker().stats(), /was not started/],
  ] as Array<[() => unknown, RegExp]>) assert.throws(call, { name: 'InvalidOption', message: words })
  await assert.rejects(worker().start(), /handles nothing/)
})

onSqlite('a worker that cannot start says why, and may try again', async ({ windlass }, t) => {
  const worker = windlass.worker({ queues: { 'bad queue': 1 } }).handle(any, () => {})
  await assert.rejects(worker.start(), /bad queue/)
  await assert.rejects(windlass.worker({ queues: { default: -1 } }).handle(any, () => {}).start(), /-1/)
  await assert.rejects(windlass.worker({ queues: { default: 1 }, lease: 'soon' }).handle(any, () => {}).start(), /lease must be/)
  const good = await started(t, windlass.worker(quiet).handle(any, () => {}))
  await assert.rejects(good.start(), /was started already/)
  assert.throws(() => good.handle(defineJob('b'), () => {}), /was started already/)
})

onBoth('close lets running jobs finish, and gives back what is not started', async ({ windlass }) => {
  const running = new Signal()
  const goOn = new Signal()
  const ids = await windlass.enqueueMany(any, [1, 2, 3])
  const worker = await windlass.worker({ queues: { default: 1 } }).handle(any, async () => {
    running.fire()
    await goOn.promise
  }).start()
  await running.promise
  const closed = worker.close()
  goOn.fire()
  await closed
  await worker.close()
  const states = await Promise.all(ids.map(async id => (await windlass.job(id))!.state))
  assert.deepEqual(states.sort(), ['available', 'available', 'completed'])
})

onBoth('close interrupts what runs on after the grace period, and gives it back unused', async ({ windlass }) => {
  const id = await windlass.enqueue(any, 1)
  const running = new Signal()
  const reasons: string[] = []
  {
    await using worker = windlass.worker({ ...quiet, gracePeriod: 1 }).handle(any, async (_, job) => {
      running.fire()
      await new Promise((_, reject) => job.signal.addEventListener('abort', () => { reasons.push(job.signal.reason.reason); reject(job.signal.reason) }))
    })
    await worker.start()
    await running.promise
  }
  const job = (await windlass.job(id))!
  assert.deepEqual([job.state, reasons], ['available', ['shutdown']])
})

onSqlite('abort hands running jobs back at once, also of handlers that never end', async ({ windlass }) => {
  const id = await windlass.enqueue(any, 1)
  const running = new Signal()
  const worker = await windlass.worker(quiet).handle(any, () => { running.fire(); return new Promise(() => {}) }).start()
  await running.promise
  worker.abort()
  await worker.ended()
  assert.equal((await windlass.job(id))!.state, 'available')
  assert.equal(await windlass.wait(id, 0), null)
})
