// What handlers do to what is around them: nothing of it reaches the next job.
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { defineJob, type Windlass } from 'windlass'
import { ended, onSqlite, started } from './support.js'

const any = defineJob<number>('any')

onSqlite('what a handler enters of an AsyncLocalStorage is not there for the next', async ({ windlass }, t) => {
  const storage = new AsyncLocalStorage<string>()
  const batches = defineJob<number>('batch')
  const seen: Array<string | undefined> = []
  const handler = (n: number): void => { seen.push(storage.getStore()); storage.enterWith(`job ${n}`) }
  const ids = await windlass.enqueueMany(any, Array.from({ length: 200 }, (_, n) => n))
  ids.push(...await windlass.enqueueMany(batches, Array.from({ length: 20 }, (_, n) => n)))
  const worker = windlass.worker({ queues: { default: 50 } })
    .handle(any, n => n % 2 ? handler(n) : (async () => { handler(n); await null; handler(n) })())
    .handleBatch(batches, { maxSize: 2 }, ([job]) => handler(job!.args))
  await storage.run('where it starts', () => started(t, worker))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  const inside = seen.filter(store => store?.startsWith('job'))
  assert.deepEqual([inside.length, new Set(seen.filter(store => !store?.startsWith('job'))).size], [100, 1], String(seen.slice(0, 20)))
})

onSqlite('a module that is evaluated anew, as a reload does, has its own Windlass and handlers beside the old ones', async ({ windlass, url }, t) => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'jobs.mjs')
  writeFileSync(file, `import { defineJob, Windlass } from ${JSON.stringify(import.meta.resolve('windlass'))}
    export const windlass = new Windlass(${JSON.stringify(url)})
    export const any = defineJob('any')
    export const worker = windlass.worker({ queues: { default: 5 } }).handle(any, n => n + new URL(import.meta.url).search)`)
  type Module = { windlass: Windlass, any: typeof any, worker: ReturnType<Windlass['worker']> }
  for (const version of ['?1', '?2', '?3']) {
    const { windlass: its, any: job, worker }: Module = await import(pathToFileURL(file).href + version)
    const [early, late] = [await its.enqueue(job, 1), await windlass.enqueue(any, 2)]
    await worker.start()
    assert.deepEqual([(await ended(windlass, early)).result, (await ended(its, late)).result], ['1' + version, '2' + version])
    await worker.close()
    await its.close()
  }
})

onSqlite('of an error with a message of any length its beginning is kept', async ({ windlass }, t) => {
  const fail = defineJob('fail', { maxAttempts: 1 })
  await started(t, windlass.worker({ queues: { default: 5 }, onError: () => {} }).handle(fail, () => { throw new Error('x'.repeat(30_000_000)) }))
  const { state, errors } = await ended(windlass, await windlass.enqueue(fail, {}))
  assert.deepEqual([state, errors[0]!.error.startsWith('Error: xxx'), errors[0]!.error.length < 20_000], ['discarded', true, true])
})
