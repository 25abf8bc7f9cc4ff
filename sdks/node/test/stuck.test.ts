import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { PermissionDenied } from 'windlass'
// None of these is exported.
import { Pulse, type Ran } from '#internal/pulse'
import { watch } from '#internal/stuck'
import { askTakenAway } from '#internal/taken_away'

const job = { id: 7, attempt: 2, kind: 'b' }

/** A thread that runs the job, and whom its watch gave up. */
function watched (isTakenAway: (job: Ran) => Promise<boolean>, last = 20) {
  const pulse = new Pulse(['a', 'b'])
  const givenUp: Ran[] = []
  const end = watch(pulse, isTakenAway, job => givenUp.push(job), 5, last)
  pulse.beat()
  pulse.runs(job)
  return { pulse, givenUp, end }
}

test('a thread says its job by the memory that it shares', () => {
  const pulse = new Pulse(['a', 'b'])
  const other = new Pulse(['a', 'b'], pulse.memory)
  assert.deepEqual([other.job, other.beats], [undefined, 0n])
  assert.equal(pulse.beat(), true)
  pulse.runs(job)
  assert.deepEqual([other.job, other.beats], [job, 1n])
  pulse.runs(undefined)
  assert.equal(other.job, undefined)
})

test('a thread that asked for jobs again is not given up, and one that was takes none', () => {
  const pulse = new Pulse([])
  pulse.beat()
  assert.equal(pulse.giveUp(0n), false)
  assert.equal(pulse.beat(), true)
  assert.equal(pulse.giveUp(2n), true)
  assert.deepEqual([pulse.beat(), pulse.beat()], [false, false])
})

test('a thread is given up once, when its job was taken away and it goes on', async t => {
  let asked = 0
  const { givenUp, end } = watched(async () => {
    if (++asked === 1) throw new Error('the store cannot be reached')
    return asked > 3
  })
  t.after(end)
  while (givenUp.length === 0) await sleep(5)
  assert.equal(asked, 4)
  await sleep(50)
  assert.deepEqual(givenUp, [job])
})

test('a thread whose job is its own, or that hears that it is not, goes on', async t => {
  const own = watched(async () => false)
  const hears = watched(async () => { setImmediate(() => { hears.pulse.beat(); hears.pulse.runs(undefined) }); return true })
  const idle = watched(async () => true)
  idle.pulse.runs(undefined)
  const over = watched(async () => { setImmediate(over.end); return true })
  t.after(() => [own, hears, idle].forEach(({ end }) => end()))
  await sleep(150)
  assert.deepEqual([own, hears, idle, over].map(({ givenUp }) => givenUp), [[], [], [], []])
})

test('a job was taken away when that attempt is over, and nobody completed it', async () => {
  for (const [record, taken] of [
    [{ attempt: 2, state: 'running' }, false], [{ attempt: 3, state: 'running' }, true], [{ attempt: 2, state: 'retryable' }, true],
    [{ attempt: 2, state: 'discarded' }, true], [{ attempt: 2, state: 'completed' }, false], [{ attempt: 3, state: 'completed' }, true], [null, true],
  ] as const) assert.equal(await askTakenAway({ call: async () => record })(job), taken, JSON.stringify(record))
})

test('where jobs may not be read, one was taken away when it ended otherwise than by completion', async () => {
  const asked: string[] = []
  let ended: unknown = null
  const isTakenAway = askTakenAway({
    call: async op => {
      asked.push(op)
      if (op === 'job') throw new PermissionDenied('permission_denied', 'no')
      return ended
    },
  })
  assert.equal(await isTakenAway(job), false)
  ended = { attempt: 2, state: 'completed' }
  assert.equal(await isTakenAway(job), false)
  ended = { attempt: 2, state: 'discarded' }
  assert.equal(await isTakenAway(job), true)
  assert.deepEqual(asked, ['job', 'wait', 'wait', 'wait'], 'a server notes each refusal in its log')
})
