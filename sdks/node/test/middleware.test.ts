import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  cancel, complete, currentJob, defineJob, discard, InvalidOption, retry, snooze, trackJob, Windlass, type Job, type Middleware, type Outcome, type Worker,
} from 'windlass'
import { addon, type NativeWorker } from '#internal/native'
import { ended, onBoth, onSqlite, Signal, started } from './support.js'

const a = defineJob<string>('a', { maxAttempts: 2 })
const OUTCOMES: Record<string, Outcome> = { cancel: cancel('no'), discard: discard('bad'), retry: retry({ error: 'again' }), snooze: snooze('1h') }

function work (say: unknown): unknown {
  if (say === 'throw') throw new RangeError('no route')
  return OUTCOMES[say as string] ?? 7
}

/** How handlers take their jobs. */
const WAYS: Record<string, (worker: Worker) => Worker> = {
  'by itself': worker => worker.handle(a, async say => work(say)),
  'in a batch': worker => worker.handleBatch(a, { maxSize: 10 }, jobs => jobs.map(job => work(job.args))),
  'of any kind': worker => worker.handleAny(work),
}

for (const [way, register] of Object.entries(WAYS)) {
  onSqlite(`middleware sees every end, and the first is the outermost: a handler ${way}`, async ({ windlass }, t) => {
    const [seen, told] = [[] as string[], new Map<string, Outcome>()]
    windlass.use(async (job, next) => {
      seen.push('outer begins')
      const outcome = await next()
      told.set(job.args as string, outcome)
      seen.push('outer ends')
      return outcome
    })
    windlass.use(async (_, next) => { seen.push('inner begins'); await next(); seen.push('inner ends') })
    await started(t, register(windlass.worker({ queues: { default: 1 }, onError: () => {} })))
    for (const say of ['complete', 'cancel', 'discard', 'retry', 'snooze', 'throw']) {
      const id = await windlass.enqueue(a, say)
      const wanted = { complete: 'completed', cancel: 'cancelled', discard: 'discarded', snooze: 'scheduled' }[say] ?? 'retryable'
      for (let state; state !== wanted; state = (await windlass.job(id))!.state) await new Promise(resolve => setTimeout(resolve, 5))
      assert.deepEqual(seen.splice(0), ['outer begins', 'inner begins', 'inner ends', 'outer ends'], say)
    }
    for (const [say, outcome] of Object.entries(OUTCOMES)) assert.deepEqual(told.get(say), outcome)
    assert.deepEqual([told.get('complete')!.type, told.get('complete')!.result], ['complete', 7])
    const threw = told.get('throw')!
    assert.equal(threw.type, 'retry')
    assert.match(threw.error!, /RangeError: no route/)
    assert.ok(threw.thrown!.error instanceof RangeError)
  })

  onSqlite(`middleware may change the outcome and leave the handler out: a handler ${way}`, async ({ windlass }, t) => {
    const errors: unknown[] = []
    windlass.use(async (job, next) => {
      if (job.tags[0] === 'out') return cancel('left out')
      const outcome = await next()
      if (outcome.thrown) return discard('not again')
      if (job.tags[0] === 'changed') return complete('another')
    })
    await started(t, register(windlass.worker({ queues: { default: 1 }, onError: error => errors.push(error) })))
    const come = async (tag: string, say: string) => {
      const { state, reason, result } = await ended(windlass, await windlass.enqueue(a, say, { tags: [tag] }))
      return [state, reason ?? result]
    }
    assert.deepEqual(await come('out', 'throw'), ['cancelled', 'left out'])
    assert.deepEqual(await come('fails', 'throw'), ['discarded', 'not again'])
    assert.deepEqual(await come('changed', 'complete'), ['completed', 'another'])
    assert.deepEqual(await come('kept', 'complete'), ['completed', 7])
    assert.deepEqual(errors, [])
  })
}

onSqlite('jobs of a batch that a middleware holds up run without the others', async ({ windlass }, t) => {
  const [sizes, first] = [[] as number[], new Signal()]
  let before = Promise.resolve()
  windlass.use(async (_, next) => { // one after the other
    const mine = new Signal()
    const waits = before
    before = mine.promise
    await waits
    await next()
    mine.fire()
  })
  await started(t, windlass.worker({ queues: { default: 1 } }).handleBatch(a, { maxSize: 2, wait: '10m' }, jobs => { sizes.push(jobs.length); first.fire() }))
  const ids = await windlass.enqueueMany(a, ['x', 'y'])
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')
  assert.deepEqual(sizes, [1, 1])
})

onSqlite('what middleware does wrong fails the attempt, and is said', async ({ windlass }, t) => {
  let wrong: Middleware = () => {}
  windlass.use((job, next) => wrong(job, next))
  const errors: string[] = []
  await started(t, windlass.worker({ queues: { default: 1 }, onError: error => errors.push(String(error)) }).handle(defineJob('once', { maxAttempts: 1 }), () => {}))
  for (const [one, words] of [
    [() => { throw new Error('its own') }, /^Error: its own/],
    [() => {}, /does not call next\(\).* has to return an outcome/],
    [(_: Job, next: () => Promise<Outcome>) => next().then(() => 7 as never), /returns an outcome or nothing, got number/],
  ] as const) {
    wrong = one
    assert.equal((await ended(windlass, await windlass.enqueue(defineJob<number>('once', { maxAttempts: 1 }), 1))).state, 'discarded')
    assert.match(errors.pop()!, words)
  }
  assert.throws(() => windlass.use(7 as never), InvalidOption)
})

onSqlite('the current job is known from anywhere below its handler', async ({ windlass }, t) => {
  windlass.use(trackJob)
  const both = new Signal()
  let running = 0
  const deep = async (): Promise<unknown> => {
    if (++running === 2) both.fire()
    await both.promise
    await new Promise(setImmediate)
    return currentJob()!.args
  }
  await started(t, windlass.worker({ queues: { default: 2 } }).handle(a, deep))
  const ids = await windlass.enqueueMany(a, ['x', 'y'])
  assert.deepEqual([(await ended(windlass, ids[0]!)).result, (await ended(windlass, ids[1]!)).result], ['x', 'y'])
  assert.equal(currentJob(), undefined)
})

onBoth('a handler of any kind works what has none of its own', async ({ windlass }, t) => {
  const known = defineJob<number>('known')
  const worker = await started(t, windlass.worker({ queues: { default: 2 } }).handle(known, () => 'by its own').handleAny((args, job) => [job.kind, args]))
  const one = await windlass.enqueue(known, 1)
  const other = await windlass.enqueue(defineJob<{ n: number }>('unknown'), { n: 2 })
  assert.equal((await ended(windlass, one)).result, 'by its own')
  assert.deepEqual((await ended(windlass, other)).result, ['unknown', { n: 2 }])
  assert.equal(worker.stats().noHandler, 0)
})

onSqlite('a worker of any kind keeps the names of a thousand kinds at most, and no job has that of another', async ({ windlass }, t) => {
  const { prototype } = (addon() as unknown as { NativeWorker: { prototype: NativeWorker } }).NativeWorker
  const { exchange } = prototype
  let most = 0
  prototype.exchange = function (...args) {
    const batch = exchange.apply(this, args)
    if (batch) most = Math.max(most, batch.known + batch.names.length)
    return batch
  }
  t.after(() => { prototype.exchange = exchange })
  await started(t, windlass.worker({ queues: { default: 100 } }).handleAny((_, job) => job.kind))
  const ids = await Promise.all(Array.from({ length: 1_500 }, (_, n) => windlass.enqueue(defineJob(`kind.${n}`), {})))
  for (const [n, id] of ids.entries()) assert.equal((await ended(windlass, id)).result, `kind.${n}`)
  // Names are forgotten before an exchange that finds a thousand: the one before may have ended with just as many.
  assert.ok(most >= 1_000 && most < 1_500, `${most}`)
})

test('two handlers of any kind are refused, and so is what is none', async () => {
  const { Windlass } = await import('windlass')
  const worker = () => new Windlass('sqlite:none.db').worker({ queues: { default: 1 } })
  assert.throws(() => worker().handleAny(() => {}).handleAny(() => {}), /two handlers for any kind/)
  assert.throws(() => worker().handleAny(7 as never), /the handler of "any" must be a function, got number/)
})

test('a worker that is started again after it could not has its middleware around its handlers once', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const windlass = new Windlass(`sqlite:${folder}/later/jobs.db?synchronous=normal`)
  t.after(() => windlass.close())
  let [around, ran] = [0, 0]
  windlass.use((_, next) => { around++; return next() })
  const worker = windlass.worker({ queues: { default: 1 } }).handle(a, () => { ran++ })
  await assert.rejects(worker.start(), /later/)
  await assert.rejects(worker.start(), /later/)
  mkdirSync(join(folder, 'later'))
  await started(t, worker)
  await ended(windlass, await windlass.enqueue(a, 'x'))
  assert.deepEqual([around, ran], [1, 1])
})
