import assert from 'node:assert/strict'
import { test } from 'node:test'
// Calls are not exported: a fake of the native part counts what crosses.
import { Calls } from '#internal/calls'
import type { NativeClient } from '#internal/native'

test('of many calls of one turn half go ahead where none is under way', async () => {
  const [started, underWay]: [number[], number[]] = [[], []]
  const native = {
    start (ops: string[], _payloads: string[], numbers: number[]) {
      started.push(ops.length)
      underWay.push(...numbers)
    },
    answers () {
      const numbers = underWay.splice(0)
      return { numbers, texts: numbers.map(String) }
    },
  }
  let ring = (): void => {}
  const calls = await Calls.open(async bell => {
    ring = bell
    return native as unknown as NativeClient
  })
  const several = async (count: number): Promise<void> => {
    const answers = Array.from({ length: count }, () => calls.call('op', '{}'))
    await new Promise(setImmediate)
    ring()
    assert.equal(new Set(await Promise.all(answers)).size, count)
  }
  await several(60)
  assert.deepEqual(started, [24, 36])
  await several(20)
  assert.deepEqual(started, [24, 36, 20])
  await several(100) // the last answers were few
  assert.deepEqual(started, [24, 36, 20, 24, 76])
  const first = calls.call('op', '{}')
  await new Promise(setImmediate)
  await several(100) // one is under way
  assert.deepEqual(started, [24, 36, 20, 24, 76, 1, 100])
  await first
})
