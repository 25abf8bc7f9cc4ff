import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Windlass } from 'windlass'
import { testWindlass } from 'windlass/testing'
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
