import assert from 'node:assert/strict'
import { test } from 'node:test'
// The loop and its handlers are not exported: a fake of the native part counts what crosses.
import { Handlers } from '#internal/handlers'
import { Loop } from '#internal/loop'
import { Pulse } from '#internal/pulse'
import { defineJob } from 'windlass'
import type { NativeBatch, NativeWorker } from '#internal/native'

const job = defineJob<number>('a')

class FakeNative {
  exchanges = 0
  left = false
  readonly completed: number[] = []
  readonly said: string[] = []
  readonly batches: Array<Partial<NativeBatch> & { texts?: string[] }> = []
  ticket = 0

  exchange (done: Float64Array, said: string | null, _room?: number): NativeBatch | null {
    this.exchanges++
    this.completed.push(...done)
    if (said) this.said.push(...said.split('\n'))
    const next = this.batches.shift()
    if (!next) return null
    const texts = next.texts ?? []
    let end = 0
    const numbers = texts.flatMap(text => {
      end += text.length + 1
      return [++this.ticket, this.ticket, end, 0, 1, 1, 20, 0, 0, 0, this.ticket]
    })
    const names = this.ticket === texts.length && texts.length > 0 ? ['a', 'default'] : []
    const known = names.length > 0 ? 0 : 2
    return { more: false, closed: false, known, names, ...next, numbers: Float64Array.from(numbers), args: `[${texts.join(',')}]` }
  }

  leave (): void { this.left = true }
}

function loopOf (handler: (args: number) => unknown) {
  const handlers = new Handlers()
  handlers.add({ job, one: handler }, handler)
  const native = new FakeNative()
  const loop = new Loop(handlers, () => {})
  return { native, loop, begin: () => loop.begin(native as unknown as NativeWorker) }
}

/** Lets everything come that is on its way. */
async function settled (): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
}

test('an idle loop rests until its bell rings, and rings of one turn are one exchange', async () => {
  const { native, loop, begin } = loopOf(() => {})
  begin()
  await settled()
  assert.equal(native.exchanges, 1)
  loop.schedule()
  loop.schedule()
  await settled()
  assert.equal(native.exchanges, 2)
})

test('10,000 jobs cross in few exchanges', async () => {
  const { native, begin } = loopOf(() => {})
  for (let n = 0; n < 40; n++) native.batches.push({ texts: Array.from({ length: 250 }, () => '1'), more: true })
  begin()
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  assert.equal(native.completed.length, 10_000)
  assert.ok(native.exchanges <= 42, `${native.exchanges}`)
})

test('one unreadable job never fails its batch', async () => {
  const { native, begin } = loopOf(n => n * 2)
  native.batches.push({ texts: ['1', '{oops', '3'] })
  begin()
  await settled()
  assert.deepEqual(native.said.map(line => JSON.parse(line)).map(({ type, ticket, result }) => [type, ticket, result]).sort(),
    [['complete', 1, 2], ['complete', 3, 6], ['retry', 2, undefined]])
})

test('the end of the worker ends the loop, which lets go of the process and interrupts what still runs', async () => {
  let signal: AbortSignal | undefined
  const handlers = new Handlers()
  const handler = (_: unknown, job: { signal: AbortSignal }) => { signal = job.signal; return new Promise(() => {}) }
  handlers.add({ job, one: handler }, handler)
  const native = new FakeNative()
  native.batches.push({ texts: ['1'] }, { closed: true })
  const loop = new Loop(handlers, () => {})
  loop.begin(native as unknown as NativeWorker)
  await loop.ended
  assert.deepEqual([native.left, signal!.aborted, signal!.reason.reason], [true, true, 'lost'])
  loop.schedule()
  await settled()
  assert.equal(native.exchanges, 2)
})

test('a signal that is first asked for after the interrupt is aborted', async () => {
  let goOn = () => {}
  const handlers = new Handlers()
  const handler = async (_: unknown, job: { signal: AbortSignal }) => {
    await new Promise<void>(resolve => { goOn = resolve })
    return [job.signal.aborted, job.signal.reason.reason]
  }
  handlers.add({ job, one: handler }, handler)
  const native = new FakeNative()
  native.batches.push({ texts: ['1'] }, { told: '[[1,"cancelled"]]' })
  new Loop(handlers, () => {}).begin(native as unknown as NativeWorker)
  await settled()
  goOn()
  await settled()
  assert.deepEqual(native.said.map(line => JSON.parse(line).result), [[true, 'cancelled']])
})

test('a loop for one job at a time takes the next when it is done', async () => {
  const rooms: number[] = []
  const [handlers, native] = [new Handlers(), new FakeNative()]
  const ends: Array<() => void> = []
  const handler = () => new Promise<void>(resolve => ends.push(resolve))
  handlers.add({ job, one: handler }, handler)
  native.batches.push({ texts: ['1'], more: true }, { texts: ['2'], more: true })
  const exchange = native.exchange.bind(native)
  native.exchange = (done: Float64Array, said: string | null, room = 0) => { rooms.push(room); return exchange(done, said) }
  const loop = new Loop(handlers, () => {}, 1)
  loop.begin(native as unknown as NativeWorker)
  await settled()
  assert.deepEqual([rooms, native.completed], [[1], []])
  ends[0]!()
  await settled()
  assert.deepEqual([rooms, native.completed, ends.length], [[1, 1], [1], 2])
})

test('a loop for one job at a time asks for the next when a job that never ends was taken away', async () => {
  const rooms: number[] = []
  const [handlers, native] = [new Handlers(), new FakeNative()]
  const begun: number[] = []
  const handler = (n: number) => { begun.push(n); return new Promise(() => {}) }
  handlers.add({ job, one: handler }, handler)
  native.batches.push({ texts: ['1'] }, { told: '[[1,null]]' }, { texts: ['2'] })
  const exchange = native.exchange.bind(native)
  native.exchange = (done: Float64Array, said: string | null, room = 0) => { rooms.push(room); return exchange(done, said) }
  const loop = new Loop(handlers, () => {}, 1)
  loop.begin(native as unknown as NativeWorker)
  await settled()
  loop.schedule() // the bell that rings with the news; without room, it rings for no job
  await settled()
  assert.deepEqual([rooms, begun], [[1, 0, 1], [1, 2]])
})

test('an exchange that fails ends the loop with its error', async () => {
  const { native, loop, begin } = loopOf(() => {})
  native.exchange = () => { throw new Error('{"code":"internal","message":"broken"}') }
  begin()
  await assert.rejects(loop.ended, { code: 'internal', message: 'broken' })
  assert.equal(native.left, true)
})

test('a loop that stood still says for how long, and which job held it', async t => {
  const said = t.mock.method(console, 'warn', () => {})
  const handlers = new Handlers()
  const hold = (until: number): void => { while (performance.now() < until); }
  const handler = (n: number) => { if (n === 2) hold(performance.now() + 400) }
  handlers.add({ job, one: handler }, handler)
  const native = new FakeNative()
  native.batches.push({ texts: ['1', '2'] })
  const loop = new Loop(handlers, () => {}, Infinity, 100)
  loop.begin(native as unknown as NativeWorker)
  while (said.mock.callCount() === 0) await new Promise(resolve => setTimeout(resolve, 5))
  native.batches.push({ closed: true })
  loop.schedule()
  await loop.ended
  const [[text]] = said.mock.calls.map(({ arguments: args }) => args) as [[string]]
  // Longer where the machine gave others its processor meanwhile.
  assert.match(text, /^windlass: the event loop stood still for (0\.[3-9]|[1-9]\d*\.\d) s, .* job 1 \(a\), job 2 \(a\) held it/)
  hold(performance.now() + 400) // of nobody's making: the loop is over
  await new Promise(resolve => setTimeout(resolve, 150))
  assert.equal(said.mock.callCount(), 1)
})

test('a loop says what it runs before it runs it, and asks for nothing more once it was given up', async () => {
  const pulse = new Pulse(['a'])
  const ran: unknown[] = []
  const handlers = new Handlers()
  const one = () => { ran.push(pulse.job) }
  handlers.add({ job, one }, one)
  const native = new FakeNative()
  const loop = new Loop(handlers, () => {}, 1, undefined, pulse)
  native.batches.push({ texts: ['1'] })
  loop.begin(native as unknown as NativeWorker)
  await settled()
  assert.deepEqual([ran, pulse.job, native.exchanges], [[{ id: 1, attempt: 1, kind: 'a' }], undefined, 2])
  assert.equal(pulse.giveUp(2n), true)
  loop.schedule()
  await settled()
  assert.equal(native.exchanges, 2)
})
