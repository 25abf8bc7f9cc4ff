import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Worker as Thread } from 'node:worker_threads'
import { defineJob } from 'windlass'
import { ended, onSqlite, started } from './support.js'

const any = defineJob<number>('any', { retryPolicy: { backoff: 'fixed', base: 0, jitter: 0 } })

onSqlite('a thread that is terminated in mid-work fails what it ran and gives back the rest', async ({ windlass, url }, t) => {
  const source = `import(${JSON.stringify(import.meta.resolve('windlass'))}).then(async ({ Windlass, defineJob }) => {
    const { parentPort } = require('node:worker_threads')
    await new Windlass(${JSON.stringify(url)}).worker({ queues: { default: 5 } })
      .handle(defineJob('any'), () => { parentPort.postMessage('running'); return new Promise(() => {}) }).start() })`
  const ids = await windlass.enqueueMany(any, Array.from({ length: 100 }, (_, n) => n))
  for (let n = 0; n < 10; n++) {
    const thread = new Thread(source, { eval: true })
    await once(thread, 'message')
    await thread.terminate()
  }
  await started(t, windlass.worker({ queues: { default: 50 } }).handle(any, n => n))
  for (const id of ids) {
    const job = await ended(windlass, id)
    assert.deepEqual([job.state, job.crashCount, job.attempt <= 2], ['completed', 0, true])
  }
})

onSqlite('threads work side by side, each in its own event loop', async ({ windlass, url }) => {
  const source = `import(${JSON.stringify(import.meta.resolve('windlass'))}).then(async ({ Windlass, defineJob }) => {
    const { parentPort, threadId } = require('node:worker_threads')
    const windlass = new Windlass(${JSON.stringify(url)})
    const worker = await windlass.worker({ queues: { default: 5 } }).handle(defineJob('any'), () => threadId).start()
    parentPort.postMessage('started')
    await new Promise(resolve => parentPort.once('message', resolve))
    await worker.close(); await windlass.close() })`
  const threads = [1, 2].map(() => new Thread(source, { eval: true }))
  await Promise.all(threads.map(thread => once(thread, 'message')))
  const ids = await windlass.enqueueMany(any, Array.from({ length: 200 }, (_, n) => n))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  const exits = threads.map(thread => once(thread, 'exit'))
  for (const thread of threads) thread.postMessage('close')
  assert.deepEqual(await Promise.all(exits), [[0], [0]])
})
