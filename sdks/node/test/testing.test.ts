import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cancel, defineJob, discard, InvalidArgs, InvalidOption, JobInterrupted, LeaseLost, retry, snooze, Unsupported, type Job } from 'windlass'
import { perform, performBatch, testWindlass } from 'windlass/testing'
import { z } from 'zod'

const mail = defineJob<{ to: string, copies?: number }>('mail.send', { queue: 'mail', maxAttempts: 2 })

test('a test asserts what is enqueued, and drains it', async () => {
  await using t = await testWindlass()
  await t.assertNotEnqueued(mail)
  await t.windlass.enqueue(mail, { to: 'a', copies: 2 })
  await t.windlass.enqueue(mail, { to: 'b' }, { delay: '1h' })
  assert.equal((await t.assertEnqueued(mail, { to: 'a' })).queue, 'mail')
  await t.assertEnqueued(mail, { to: 'b' })
  await assert.rejects(t.assertEnqueued(mail, { to: 'c' }), /no job "mail.send" with {"to":"c"} is enqueued.*\n {2}{"to":"a","copies":2}\n {2}{"to":"b"}$/s)
  await assert.rejects(t.assertNotEnqueued(mail, { to: 'a' }), /is enqueued with/)
  const sent: string[] = []
  const report = await t.drain(worker => worker.handle(mail, ({ to }) => { sent.push(to) }))
  assert.deepEqual([report.completed, sent, (await t.enqueued(mail)).length], [1, ['a'], 1])
})

test('a drain follows jobs into queues that its handlers made', async () => {
  await using t = await testWindlass()
  const next = defineJob<number>('next')
  await t.windlass.enqueue(next, 3, { queue: 'q3' })
  const report = await t.drain(worker => worker.handle(next, async n => { if (n > 0) await t.windlass.enqueue(next, n - 1, { queue: `q${n - 1}` }) }))
  assert.deepEqual([report.completed, report.claimed], [4, 4])
})

for (const how of ['enqueues', 'snoozes', 'retries', 'makes queues', 'fails']) {
  test(`a drain without an end is an error: a job ${how}`, async () => {
    await using t = await testWindlass()
    const selfish = defineJob('selfish', { maxAttempts: 1_000 })
    await t.windlass.enqueue(selfish, {})
    let runs = 0
    const register = (worker: import('windlass').Worker) => worker.handle(selfish, async () => {
      runs++
      if (how === 'snoozes') return snooze(0)
      if (how === 'retries') return retry({ after: 0 })
      await t.windlass.enqueue(selfish, {}, how === 'makes queues' ? { queue: `q${runs}` } : {})
      if (how === 'fails') throw new RangeError('no route')
    })
    await assert.rejects(t.drain(register, { atMost: 20 }), error => {
      assert.match(String(error), /there are more; those that are there now are of kind "selfish"; does one snooze or enqueue itself/)
      return (error as Error).cause instanceof RangeError === (how === 'fails')
    })
    assert.ok(how === 'makes queues' || runs >= 20) // the last that was claimed may not have begun
    await assert.rejects(t.drain(register, { atMost: 0 }), /^InvalidOption: atMost must be a number of jobs from 1 on, got 0/)
  })
}

test('what a handler throws is thrown by drain, unless it may fail', async () => {
  await using t = await testWindlass()
  await t.windlass.enqueueMany(mail, [{ to: 'a' }, { to: 'b' }])
  const broken = (worker: import('windlass').Worker) => worker.handle(mail, ({ to }) => { throw new RangeError(to) })
  const report = await t.drain(broken, { allowFailures: true })
  assert.deepEqual([report.retried, report.errors.length], [2, 2])
  await t.windlass.retry({ state: 'retryable' })
  await assert.rejects(t.drain(broken), AggregateError)
  await t.windlass.enqueue(mail, { to: 'c' })
  await assert.rejects(t.drain(broken), RangeError)
  await t.windlass.enqueue(mail, { to: 'd' })
  assert.equal((await t.drain(worker => worker.handle(mail, () => discard('no')))).discarded, 1)
})

test('one handler runs by itself: what it says of its job, returned or thrown', async () => {
  const any = defineJob<unknown>('any')
  for (const [handler, outcome, result] of [
    [() => {}, null, null], [() => null, null, null], [async () => ({ sent: 1, at: new Date(0) }), null, { sent: 1, at: '1970-01-01T00:00:00.000Z' }],
    [() => snooze('5m'), snooze('5m'), null], [async () => { throw cancel('unwanted') }, cancel('unwanted'), null],
    [() => retry({ after: '1h', error: 'busy' }), retry({ after: '1h', error: 'busy' }), null],
    [() => NaN, discard('the result cannot be stored: NaN in the result has no JSON form: write it as a string or null'), null],
  ] as Array<[() => unknown, unknown, unknown]>) assert.deepEqual(await perform(any, handler, {}), { outcome, result, report: null })
})

test('a handler that runs by itself has args and a job as a worker would give it', async () => {
  const bill = defineJob('bill', { args: z.object({ cents: z.number(), on: z.coerce.date().default(new Date(0)) }), queue: 'bills', maxAttempts: 3, tags: ['a'] })
  const handler = ({ cents, on }: { cents: number, on: Date }, job: Job) =>
    [cents, on, job.argsJson, job.kind, job.queue, job.attempt, job.maxAttempts, job.priority, job.key, job.meta, job.tags, job.expiresAt, job.signal.aborted]
  const { result } = await perform(bill, handler, { cents: 5 })
  assert.deepEqual(result, [5, new Date(0).toJSON(), '{"cents":5}', 'bill', 'bills', 1, 3, 0, null, null, ['a'], null, false])
  const expiresAt = new Date('2032-01-01T00:00:00Z')
  const { result: other } = await perform(bill, handler, { cents: 5 }, { attempt: 3, queue: 'late', priority: 7, key: 'acme', meta: { at: expiresAt }, expiresAt })
  const at = expiresAt.toJSON()
  assert.deepEqual(other, [5, new Date(0).toJSON(), '{"cents":5}', 'bill', 'late', 3, 3, 7, 'acme', { at }, ['a'], at, false])
  await assert.rejects(perform(bill, handler, { cents: 'five' } as never), InvalidArgs)
  await assert.rejects(perform(bill, handler, { cents: 5 }, { delai: 1 } as never), InvalidOption)
  await assert.rejects(perform(bill, function * () {} as never, { cents: 5 }), /is a generator function/)
})

test('what a handler that runs by itself reports is read afterwards', async () => {
  const load = defineJob<{ parts: number }>('load')
  let kept: Job | undefined
  const handler = async ({ parts }: { parts: number }, job: Job) => {
    kept = job
    for (let part = await job.lastCheckpoint<number>() ?? 0; part < parts; part++) {
      job.progress(100 * part / parts, `part ${part}`)
      job.log(`part ${part}`)
      await job.checkpoint(part + 1)
    }
    assert.throws(() => job.progress(101), InvalidOption)
    await assert.rejects(job.checkpoint(NaN), InvalidArgs)
    await assert.rejects(job.completeIn({ query: async () => [] }), Unsupported)
  }
  const { report } = await perform(load, handler, { parts: 4 }, { attempt: 2, checkpoint: 2 })
  assert.deepEqual([report!.attempt, report!.progress, report!.checkpoint, report!.logDropped], [2, { percent: 75, note: 'part 3' }, 4, 0])
  assert.deepEqual(report!.log.map(({ attempt, text }) => [attempt, text]), [[2, 'part 2'], [2, 'part 3']])
  assert.ok(report!.log[0]!.at instanceof Date && report!.reportedAt instanceof Date)
  assert.throws(() => kept!.log('too late'), LeaseLost)
  assert.equal((await perform(load, handler, { parts: 4 }, { checkpoint: 4 })).report, null)
})

test('what a handler that runs by itself throws is thrown, unless it may fail', async () => {
  const broken = async (_: unknown, job: Job) => {
    job.log('begun')
    throw new RangeError('no route')
  }
  await assert.rejects(perform(mail, broken, { to: 'a' }), RangeError)
  const { outcome, result, error, report } = await perform(mail, broken, { to: 'a' }, { allowFailures: true })
  assert.deepEqual([outcome, result, error, report!.log[0]!.text], [null, null, new RangeError('no route'), 'begun'])
})

test('a handler that runs by itself is told to stop', async () => {
  const handler = async (_: unknown, { signal }: Job) => {
    if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
    assert.ok(signal.reason instanceof JobInterrupted)
    return cancel(signal.reason.reason)
  }
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 5)
  for (const cancelWhen of [AbortSignal.abort(), stop.signal]) {
    assert.deepEqual((await perform(mail, handler, { to: 'a' }, { cancelWhen })).outcome, cancel('cancelled'))
  }
})

test('a test has the keys and the traces of its program', async () => {
  const account = defineJob<{ passport: string }>('account.open', { encrypted: true })
  const spans: string[] = []
  const traces = {
    send<T> ({ kind }: { kind: string }, run: (carried: undefined) => Promise<T>) { spans.push(`send ${kind}`); return run(undefined) },
    process ({ kind }: { kind: string }, run: () => unknown) { spans.push(`process ${kind}`); return run() },
  }
  await using t = await testWindlass({ keys: `k1:${Buffer.alloc(32, 7).toString('base64')}`, traces })
  const id = await t.windlass.enqueue(account, { passport: 'C01X00T47' })
  assert.equal(JSON.stringify(await t.windlass.job(id)).includes('C01X00T47'), false)
  assert.equal((await t.assertEnqueued(account, { passport: 'C01X00T47' })).id, id)
  await assert.rejects(t.assertNotEnqueued(account, { passport: 'C01X00T47' }), /is enqueued with/)
  const report = await t.drain(worker => worker.handle(account, ({ passport }) => `for ${passport}`))
  assert.deepEqual([report.completed, await t.windlass.result(id), spans], [1, 'for C01X00T47', ['send account.open', 'process account.open']])
})

const event = defineJob('event', { args: z.object({ n: z.number(), at: z.coerce.date().default(new Date(0)) }), queue: 'events' })

test('the handler of a batch runs by itself, and says what becomes of each job', async () => {
  const ids: number[] = []
  const index = (jobs: Array<Job<{ n: number, at: Date }>>) => jobs.map(job => {
    ids.push(job.id)
    assert.deepEqual([job.args.at, job.queue, job.attempt], [new Date(0), 'events', 2])
    job.log(`event ${job.args.n}`)
    return job.args.n % 2 === 1 ? discard('odd') : job.args.n * 10
  })
  const done = await performBatch(event, index, [{ n: 1 }, { n: 2 }], { attempt: 2 })
  assert.deepEqual(done.map(({ outcome, result }) => [outcome, result]), [[discard('odd'), null], [null, 20]])
  assert.deepEqual([done.map(({ report }) => report!.log.map(({ text }) => text)), ids], [[['event 1'], ['event 2']], [1, 2]])
  assert.deepEqual((await performBatch(event, () => {}, [{ n: 1 }])), [{ outcome: null, result: null, report: null }])
})

test('what the handler of a batch throws is thrown, unless it may fail, and of what it must not return the same', async () => {
  const wrong = (): never => { throw new RangeError('all of them') }
  await assert.rejects(performBatch(event, wrong, [{ n: 1 }, { n: 2 }]), RangeError)
  const failed = await performBatch(event, wrong, [{ n: 1 }, { n: 2 }], { allowFailures: true })
  assert.deepEqual(failed.map(({ error }) => (error as Error).message), ['all of them', 'all of them'])
  await assert.rejects(performBatch(event, () => [1], [{ n: 1 }, { n: 2 }]), /it returned 1 outcomes/)
  await assert.rejects(performBatch(event, () => {}, [{ n: 'x' as unknown as number }]), InvalidArgs)
  await assert.rejects(performBatch(event, () => {}, []), InvalidOption)
  const [stopped] = await performBatch(event, ([job]) => [job!.signal.aborted], [{ n: 1 }], { cancelWhen: AbortSignal.abort() })
  assert.equal(stopped!.result, true)
})

test('a drain has batches as large as in the program', async () => {
  await using t = await testWindlass()
  const many = defineJob<number>('many')
  await t.windlass.enqueueMany(many, Array.from({ length: 60 }, (_, n) => n))
  const sizes: number[] = []
  await t.drain(worker => worker.handleBatch(many, { maxSize: 60 }, jobs => { sizes.push(jobs.length) }))
  assert.ok(Math.max(...sizes) > 10, `${sizes}`)
})

test('time passes at once', async () => {
  await using t = await testWindlass()
  const [fails, later] = [defineJob<number>('fails', { maxAttempts: 3 }), defineJob<number>('later')]
  const attempts: number[] = []
  const drain = () => t.drain(worker => worker.handle(later, () => {}).handle(fails, (_, job) => { attempts.push(job.attempt); throw new Error('no route') }), { allowFailures: true })
  await t.windlass.enqueue(later, 1, { delay: '3d' })
  const expires = await t.windlass.enqueue(later, 1, { delay: '1h', expiresIn: '2d' })
  await t.windlass.enqueue(fails, 1)
  assert.deepEqual([(await drain()).retried, (await drain()).retried], [1, 0])
  await t.travel('1m')
  assert.equal((await drain()).retried, 1)
  await t.travel('4d')
  assert.equal((await drain()).completed, 1)
  assert.deepEqual([attempts, (await t.enqueued(later)).length, (await t.windlass.job(expires))!.state], [[1, 2, 3], 0, 'cancelled'])
  await assert.rejects(t.travel(-1), /the time to travel/)
})

test('a drain works where a test has put timers of its own in the place of those of Node', async t => {
  await using test = await testWindlass()
  await test.windlass.enqueue(mail, { to: 'a' })
  t.mock.timers.enable()
  assert.equal((await test.drain(worker => worker.handle(mail, async () => {}))).completed, 1)
})

test('what is looked for is compared as it is stored', async () => {
  await using t = await testWindlass()
  const remind = defineJob<{ at: Date, of?: { days: number[] } | undefined }>('remind')
  const at = new Date('2031-01-01T00:00:00Z')
  await t.windlass.enqueue(remind, { at, of: { days: [1] } })
  await t.assertEnqueued(remind, { at })
  await t.assertEnqueued(remind, { at, of: { days: [1] } })
  await assert.rejects(t.assertNotEnqueued(remind, { at }), /is enqueued with/)
  await t.assertNotEnqueued(remind, { at: new Date('2031-01-02T00:00:00Z') })
})
