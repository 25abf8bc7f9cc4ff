import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retry, type ArgsOf, type Job, type Windlass } from 'windlass'
import { perform, testWindlass } from 'windlass/testing'
import { sendMail } from './jobs.js'

async function signUp (windlass: Windlass, email: string): Promise<void> {
  await windlass.enqueue(sendMail, { to: email })
  await windlass.enqueue(sendMail, { to: email }, { delay: '3d' })
}

test('a new user gets a mail now and one later', async () => {
  await using t = await testWindlass() // a SQLite file of its own
  await signUp(t.windlass, 'ada@example.com')
  await t.assertEnqueued(sendMail, { to: 'ada@example.com' })
  const sent: string[] = []
  const report = await t.drain(worker => worker.handle(sendMail, ({ to }) => { sent.push(to) })) // throws what handlers throw
  assert.deepEqual([report.completed, sent], [1, ['ada@example.com']])
  assert.equal((await t.enqueued(sendMail)).length, 1)
})

async function send ({ to }: ArgsOf<typeof sendMail>, job: Job) {
  job.log(`a mail to ${to}`)
  if (job.attempt > 3) return retry({ after: '1h', error: 'still failing' })
}

test('a mail that failed three times waits for an hour', async () => {
  const { outcome, report } = await perform(sendMail, send, { to: 'ada@example.com' }, { attempt: 4 }) // one handler, without a store
  assert.deepEqual(outcome, retry({ after: '1h', error: 'still failing' }))
  assert.equal(report!.log[0]!.text, 'a mail to ada@example.com')
})
