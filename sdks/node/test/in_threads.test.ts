import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { defineJob, InvalidOption, type JobInfo, type Windlass } from 'windlass'
import { busy } from './modules/busy.js'
import { ended, onBoth, onSqlite, started } from './support.js'

const module = new URL('./modules/busy.js', import.meta.url)
const any = defineJob<number>('any')

const worker = (windlass: Windlass, threads = 2, told: Array<[unknown, JobInfo]> = []) =>
  windlass.worker({ queues: { default: 10 }, onError: (error, job) => told.push([error, job]) }).handleInThreads(busy, module, { threads })

onBoth('threads work jobs beside the event loop, which works others', async ({ windlass }, t) => {
  const both = await started(t, worker(windlass).handle(any, n => n + 1))
  const ids = await windlass.enqueueMany(busy, Array.from({ length: 40 }, () => ({ do: 'work' as const })))
  const here = await windlass.enqueue(any, 1)
  const results = new Set<unknown>()
  for (const id of ids) results.add((await ended(windlass, id)).result)
  assert.ok(results.size <= 2 && !results.has(0), `ran in threads ${[...results]}`)
  assert.equal((await ended(windlass, here)).result, 2)
  await both.close()
  assert.equal(both.stats().completed, 41)
})

onSqlite('what a handler in a thread throws is kept and told, and schemas are asked', async ({ windlass }, t) => {
  const told: Array<[unknown, JobInfo]> = []
  await started(t, worker(windlass, 1, told))
  const loose = defineJob<unknown>('busy', { maxAttempts: 1 })
  const ids = await windlass.enqueueMany(loose, [{ do: 'throw' }, { do: 'unclonable' }, { do: 'nothing' }])
  const [thrown, odd, unfit] = await Promise.all(ids.map(async id => (await ended(windlass, id)).errors[0]!.error))
  assert.match(thrown!, /^RangeError: no room\n\s+at .*busy/)
  assert.match(odd!, /^Error: odd/)
  assert.match(unfit!, /args of kind "busy" do not fit its schema: do: /)
  assert.deepEqual(told.map(([, { kind, attempt }]) => [kind, attempt]), [['busy', 1], ['busy', 1], ['busy', 1]])
  assert.ok(told.some(([error]) => error instanceof RangeError))
})

onSqlite('an onError that throws ends no process', async ({ windlass }, t) => {
  t.mock.method(console, 'error', () => {})
  const broken = () => { throw new Error('broken') }
  await started(t, windlass.worker({ queues: { default: 10 }, onError: broken }).handleInThreads(busy, module, { threads: 1 }))
  const ids = await windlass.enqueueMany(busy, [{ do: 'throw' }, { do: 'work' }])
  assert.deepEqual(await Promise.all(ids.map(async id => (await ended(windlass, id)).state)), ['discarded', 'completed'])
})

onSqlite('a thread that dies is replaced, and its job runs again', async ({ windlass }, t) => {
  t.mock.method(console, 'error', () => {})
  await started(t, worker(windlass, 1))
  const job = await ended(windlass, await windlass.enqueue(busy, { do: 'die' }))
  assert.deepEqual([job.state, job.attempt, job.errors[0]!.error], ['completed', 2, 'what ran the job is gone'])
})

onBoth('threads that compute on with what was taken away are replaced, and the jobs behind them run', async ({ windlass }, t) => {
  const [warn, error] = [t.mock.method(console, 'warn', () => {}), t.mock.method(console, 'error', () => {})]
  await started(t, worker(windlass, 3))
  const long = await windlass.enqueue(busy, { do: 'compute' })
  const spins = await windlass.enqueueMany(busy, [{ do: 'spin' }, { do: 'spin' }], { timeout: '100ms', maxAttempts: 1 })
  for (const id of [long, ...spins]) while ((await windlass.job(id))!.state !== 'running') await new Promise(setImmediate)
  const behind = await windlass.enqueueMany(busy, Array.from({ length: 5 }, () => ({ do: 'work' as const })))
  for (const id of behind) {
    const { state, attempt, crashCount, errors } = await ended(windlass, id)
    assert.deepEqual([state, attempt, crashCount, errors], ['completed', 1, 0, []])
  }
  assert.equal((await windlass.job(long))!.state, 'running', 'those behind were not to wait for it')
  for (const id of spins) {
    const { state, errors, crashCount } = await ended(windlass, id)
    assert.deepEqual([state, errors.length, crashCount], ['discarded', 1, 0])
    assert.equal(warn.mock.calls.filter(({ arguments: [said] }) => said.startsWith(`windlass: job ${id} (busy) is no longer this worker's`)).length, 1)
  }
  assert.deepEqual([(await ended(windlass, long)).state, (await ended(windlass, long)).attempt], ['completed', 1])
  assert.deepEqual([warn.mock.callCount(), error.mock.callCount()], [2, 0])
})

onSqlite('a job in a thread is told to stop', async ({ windlass }, t) => {
  await started(t, worker(windlass, 1))
  const id = await windlass.enqueue(busy, { do: 'stop' })
  while (!(await windlass.job(id))!.report) await new Promise(setImmediate) // its log says that it runs
  assert.equal(await windlass.cancel(id), 'running')
  assert.deepEqual([(await ended(windlass, id)).result], ['cancelled'])
})

onSqlite('modules that are no handlers keep the worker from starting, and are named', async ({ windlass }) => {
  const starting = (url: URL) => windlass.worker({ queues: { default: 1 } }).handleInThreads(busy, url, { threads: 2 }).start()
  await assert.rejects(starting(new URL('./modules/not_a_handler.js', import.meta.url)), /not_a_handler.js must be inThread\(...\) of the job "busy"/)
  await assert.rejects(starting(new URL('./modules/none.js', import.meta.url)), /Cannot find module .*none.js/)
  assert.throws(() => worker(windlass).handle(busy, () => {}), /two handlers for "busy"/)
  assert.throws(() => worker(windlass).handleInThreads(busy, module, { threads: 1 }), /two handlers for "busy"/)
  assert.throws(() => windlass.worker({ queues: { default: 1 } }).handleInThreads(busy, './x.js', { threads: 1 }), InvalidOption)
  assert.throws(() => windlass.worker({ queues: { default: 1 } }).handleInThreads(busy, module, { threads: 0 }), /must be 1 to 1000, got 0/)
})

onSqlite('a process whose worker with threads was closed ends', async ({ url }) => {
  const env = { ...process.env, WINDLASS_STORE: url }
  const { status, stdout, stderr } = spawnSync(process.execPath, [new URL('./modules/closes.js', import.meta.url).pathname], { env, encoding: 'utf8', timeout: 60_000 })
  assert.deepEqual([status, stdout, stderr], [0, 'closed\n', ''])
})

onSqlite('an onError that rejects ends no process', async ({ windlass }, t) => {
  const error = t.mock.method(console, 'error', () => {})
  const fails = defineJob('fails', { maxAttempts: 1 })
  await started(t, windlass.worker({ queues: { default: 10 }, onError: async () => { throw new Error('the alert service is down') } }).handle(fails, () => { throw new Error('x') }))
  assert.equal((await ended(windlass, await windlass.enqueue(fails, {}))).state, 'discarded')
  assert.match(String(error.mock.calls[0]!.arguments), /onError threw.*the alert service is down/)
})
