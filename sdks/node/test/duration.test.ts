import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retry, snooze, type Duration } from 'windlass'

test('time spans are milliseconds or texts', () => {
  const of = (time: Duration) => snooze(time).message.after_ms
  for (const [time, ms] of [[0, 0], [0.4, 1], [1.4, 2], [1e-9, 1], ['0.1ms', 1], ['0.0005s', 1], ['0.0ms', 0], ['1.1h', 3_960_000], ['500ms', 500], ['30s', 30_000], ['1.5m', 90_000], ['1h30m', 5_400_000], ['7d', 604_800_000], ['2w', 1_209_600_000], ['5 m', 300_000], [3_162_240_000_000, 3_162_240_000_000]] as Array<[Duration, number]>) {
    assert.equal(of(time), ms)
  }
  for (const wrong of ['', '5', 'm', '-5m', '5M', NaN, Infinity, -1, null, {}, '1h30'] as Duration[]) {
    assert.throws(() => of(wrong), { code: 'invalid_option', message: /the time to snooze must be milliseconds .* got / })
  }
  for (const far of [1e300, '40000d'] as Duration[]) {
    assert.throws(() => of(far), { code: 'invalid_option', message: /the time to snooze must be at most 100 years, got / })
    assert.throws(() => retry({ after: far }), { code: 'invalid_option', message: /^after must be at most 100 years, got / })
  }
  assert.deepEqual(retry().message, { type: 'retry', error: 'the handler asked for a retry', after_ms: undefined })
})
