import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineJob, type Worker } from 'windlass'
import { testWindlass } from 'windlass/testing'
import { ended, onBoth, onSqlite, Signal, started } from './support.js'

const row = defineJob<number>('row')

async function claimed (worker: Worker, count: number): Promise<void> {
  while (worker.stats().claimed < count) await new Promise(resolve => setTimeout(resolve, 5))
}

onBoth('a batch takes one place of its queue, and its first job waits for others', async ({ windlass }, t) => {
  const sizes: number[] = []
  const worker = windlass.worker({ queues: { default: 1 } }).handleBatch(row, { maxSize: 3, wait: '10m' }, jobs => { sizes.push(jobs.length) })
  await started(t, worker)
  const ids = [await windlass.enqueue(row, 1)]
  await claimed(worker, 1)
  ids.push(...await windlass.enqueueMany(row, [2, 3]))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  assert.deepEqual(sizes, [3])
})

onSqlite('batches that run hold as many places as there are', async ({ windlass }, t) => {
  const mail = defineJob<number>('mail')
  const [both, free] = [new Signal(), new Signal()]
  const order: string[] = []
  let running = 0
  const worker = windlass.worker({ queues: { default: 2 } })
    .handleBatch(row, { maxSize: 4, wait: '10m' }, async jobs => {
      if (++running === 2) both.fire()
      await free.promise
      order.push(`${jobs.length} rows`)
    })
    .handle(mail, () => { order.push('mail') })
  await started(t, worker)
  await windlass.enqueueMany(row, [1, 2, 3, 4, 5, 6, 7, 8])
  await both.promise
  await windlass.enqueue(mail, 1)
  while (worker.stats().ready < 1) await new Promise(resolve => setTimeout(resolve, 5))
  assert.deepEqual([worker.stats().running, order], [8, []])
  free.fire()
  await worker.untilIdle()
  assert.deepEqual([order.toSorted(), order[0]], [['4 rows', '4 rows', 'mail'], '4 rows'])
})

test('a drain waits for nobody', async () => {
  await using t = await testWindlass()
  await t.windlass.enqueueMany(row, [1, 2])
  const report = await t.drain(worker => worker.handleBatch(row, { maxSize: 100, wait: '10m' }, () => {}))
  assert.equal(report.completed, 2)
})
