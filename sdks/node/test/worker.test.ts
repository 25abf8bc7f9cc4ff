import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { defineJob, InvalidOption, JobInterrupted, LeaseLost, Windlass, type Job } from 'windlass'
import { z } from 'zod'
import { ended, onBoth, onSqlite, Signal, started } from './support.js'

const any = defineJob<unknown>('any')
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

onBoth('a drained worker ends what it runs and goes', async ({ windlass }) => {
  const [began, go] = [new Signal(), new Signal()]
  const worker = windlass.worker(quiet).handle(any, async () => { began.fire(); await go.promise })
  const run = worker.run()
  const id = await windlass.enqueue(any, {})
  await began.promise
  await windlass.drainWorker((await windlass.status()).workers[0]!.id)
  go.fire()
  await run
  assert.equal((await windlass.job(id))!.state, 'completed')
  assert.deepEqual((await windlass.status()).workers.map(({ live, draining }) => [live, draining]), [[false, true]])
})

onBoth('a worker is listed with what it runs', async ({ windlass }, t) => {
  await started(t, windlass.worker({ ...quiet, program: 'shop', appVersion: '2.4.1' }).handle(any, () => {}))
  const { program, appVersion, engine, memoryBytes, jobsPerSecond } = (await windlass.status()).workers[0]!
  assert.deepEqual([program, appVersion], ['shop', '2.4.1'])
  // Nothing before its first heartbeat, which the store may ask for at once.
  assert.ok((memoryBytes === null || memoryBytes > 2 ** 20) && (jobsPerSecond ?? 0) === 0)
  assert.match(engine!, /^TypeScript \d+\.\d+\.\d+/)
  await assert.rejects(windlass.worker({ ...quiet, appVersion: 'a\nb' }).handle(any, () => {}).start(), /app_version of a worker must be without control/)
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

onBoth('a handler that ends as its signal says has not failed', async ({ windlass }, t) => {
  const errors: unknown[] = []
  const began = [new Signal(), new Signal()]
  await started(t, windlass.worker({ ...quiet, onError: error => errors.push(error) }).handle(any, async (args, job) => {
    const { nth } = args as { nth: 0 | 1 }
    began[nth]!.fire()
    if (nth === 0) await new Promise((_, reject) => job.signal.addEventListener('abort', () => reject(job.signal.reason)))
    else await setTimeout(600_000, undefined, { signal: job.signal })
  }))
  for (const nth of [0, 1]) {
    const id = await windlass.enqueue(any, { nth })
    await began[nth]!.promise
    assert.equal(await windlass.cancel(id), 'running')
    const record = await ended(windlass, id)
    assert.deepEqual([record.state, record.reason], ['cancelled', 'cancelled by request: stopped: cancelled'])
  }
  assert.deepEqual(errors, [])
})

onBoth('a job that takes too long is told, and failed', async ({ windlass }, t) => {
  const slow = defineJob('slow', { timeout: 20, maxAttempts: 1 })
  const reason = new Signal<string>()
  await started(t, windlass.worker(quiet).handle(slow, (_, job) => new Promise((_, reject) => {
    job.signal.addEventListener('abort', () => { reason.fire(job.signal.reason.reason); reject(job.signal.reason) })
  })))
  const record = await ended(windlass, await windlass.enqueue(slow, {}))
  assert.deepEqual([record.state, await reason.promise], ['discarded', 'timeout'])
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
    [() => worker().handleBatch(any, { maxSize: 1, wait: '11m' }, () => {}), /wait of the handler of "any" must be at most 10 minutes, .* got "11m"/],
    [() => windlass.worker({} as never), /name the queues/],
    [() => windlass.worker({ queues: { default: 1 }, leese: 1 } as never), /"leese" is no option of a worker; options are .* lease/],
    [() => windlass.worker({ queues: { default: 1 }, settling: 'lax' as never }), /settling must be 'pipelined' or 'strict', got "lax"/],
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

onSqlite('a worker that is stopped while it starts ends', async ({ windlass }) => {
  const worker = windlass.worker(quiet).handle(any, () => {})
  const starting = worker.start()
  worker.stop()
  await starting
  await worker.ended()
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

onBoth('a Windlass that is closed leaves its workers their store until they end', async ({ windlass, url }, t) => {
  const [began, go] = [new Signal(), new Signal()]
  const worker = await started(t, windlass.worker({ queues: { default: 2 } }).handle(any, async () => { began.fire(); await go.promise }))
  const ids = await windlass.enqueueMany(any, Array(9).fill({}))
  await began.promise
  await windlass.close()
  go.fire()
  await worker.untilIdle()
  assert.equal(worker.stats().settled, 9)
  await worker.close()
  const other = new Windlass(url)
  t.after(() => other.close())
  for (const id of ids) assert.deepEqual([(await other.job(id))!.state, (await other.job(id))!.attempt], ['completed', 1])
  assert.ok((await other.status()).workers.every(({ live }) => !live), 'it said goodbye')
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

onBoth('jobs of unknown kinds wait for a worker that knows them', async ({ windlass }, t) => {
  const id = await windlass.enqueue(defineJob('unknown'), {})
  {
    await using ignorant = windlass.worker(quiet).handle(any, () => {})
    await ignorant.start()
    await ended(windlass, await windlass.enqueue(any, {}))
  }
  const waits = (await windlass.job(id))!
  assert.deepEqual([waits.state, waits.attempt], ['available', 0])
  await started(t, windlass.worker(quiet).handle(defineJob('unknown'), () => {}))
  assert.equal((await ended(windlass, id)).state, 'completed')
})

onBoth('a worker says how long failed attempts wait, and may settle strictly', async ({ windlass }, t) => {
  await started(t, windlass.worker({ ...quiet, retryPolicy: { backoff: 'fixed', base: '1ms' }, settling: 'strict' }).handle(any, (_, job) => {
    if (job.attempt < 3) throw new Error('again')
    return job.attempt
  }))
  const ids = await windlass.enqueueMany(any, Array.from({ length: 50 }, (_, n) => n))
  for (const id of ids) assert.equal((await ended(windlass, id)).result, 3)
})

onBoth('limits of a queue and of its keys hold', async ({ windlass }, t) => {
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  await windlass.limits.set('narrow', { concurrency: 2 })
  await windlass.limits.setKeys('keyed', { concurrency: 1 })
  const ids: number[] = []
  for (let nth = 0; nth < 12; nth++) {
    ids.push(await windlass.enqueue(any, {}, { queue: 'narrow' }), await windlass.enqueue(any, {}, { queue: 'keyed', key: nth % 2 ? 'odd' : 'even' }))
  }
  await started(t, windlass.worker({ queues: { narrow: 10, keyed: 10 } }).handle(any, async (_, job) => {
    const of = job.queue + job.key
    const now = (running.get(of) ?? 0) + 1
    running.set(of, now)
    most.set(of, Math.max(most.get(of) ?? 0, now))
    await setTimeout(2) // for others to begin meanwhile, if they may
    running.set(of, running.get(of)! - 1)
  }))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  assert.ok(most.get('narrownull')! <= 2, `${most.get('narrownull')} of the queue ran at once`)
  assert.deepEqual([most.get('keyedodd'), most.get('keyedeven')], [1, 1])
})

onSqlite('an event loop that stands still for three leases loses no job, and none runs twice', async ({ windlass, url }, t) => {
  const [job, beside] = [defineJob<number>('holds'), defineJob<number>('beside')]
  const ran: string[] = []
  const other = new Worker(`(async () => { const { Windlass, defineJob } = await import(${JSON.stringify(import.meta.resolve('windlass'))})
    const windlass = new Windlass(${JSON.stringify(url)})
    const again = defineJob('holds'), beside = defineJob('beside'), { parentPort } = await import('node:worker_threads')
    const worker = windlass.worker({ queues: { default: 2 }, lease: '1s' }).handle(again, () => 'again').handle(beside, () => 'again')
    parentPort.on('message', async message => {
      if (message === 'start') await worker.start()
      else { await worker.close(); await windlass.close(); parentPort.close() }
    })
    parentPort.postMessage('ready') })()`, { eval: true })
  await once(other, 'message')
  const worker = windlass.worker({ queues: { default: 2 }, lease: '1s' })
    .handle(job, () => {
      ran.push('holds')
      other.postMessage('start')
      const until = performance.now() + 3_000
      while (performance.now() < until);
    })
    .handle(beside, async () => { ran.push('beside'); await setTimeout(100) })
  await started(t, worker)
  const ids = [await windlass.enqueue(beside, 1), await windlass.enqueue(job, 2)]
  for (const id of ids) {
    const { state, attempt, crashCount, result } = await ended(windlass, id)
    assert.deepEqual([state, attempt, crashCount, result], ['completed', 1, 0, null])
  }
  assert.deepEqual(ran.toSorted(), ['beside', 'holds'])
  other.postMessage('end')
  await once(other, 'exit')
})

onBoth('what a definition says holds for jobs of others, too', async ({ windlass }, t) => {
  const says = { timeout: 20, retryPolicy: { backoff: 'fixed', base: '1h' } } as const
  const [one, many, quick] = [defineJob('one', says), defineJob('many', says), defineJob('quick')]
  await started(t, windlass.worker(quiet)
    .handle(one, () => new Promise(() => {})).handleBatch(many, { maxSize: 5 }, () => new Promise(() => {})).handle(quick, () => {}))
  const ids = await Promise.all(['one', 'many', 'quick'].map(async kind => windlass.enqueue(defineJob(kind), {}))) // as they come by SQL
  await ended(windlass, ids[2]!)
  for (const id of ids.slice(0, 2)) {
    let job = (await windlass.job(id))!
    while (job.state !== 'retryable') job = (await setTimeout(5, windlass.job(id)))!
    assert.deepEqual([job.timeoutMs, job.retryPolicy], [null, null], 'it says nothing itself')
    assert.match(job.errors[0]!.error, /^timeout after 20ms/)
    assert.ok(job.scheduledAt!.getTime() - job.enqueuedAt.getTime() > 3_000_000)
  }
})
