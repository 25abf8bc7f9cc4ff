import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineJob, discard } from 'windlass'
import { testWindlass } from 'windlass/testing'

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
