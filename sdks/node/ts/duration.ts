import { InvalidOption } from './errors.js'

/** A time span: milliseconds, or a text of numbers with units, such as `'500ms'`, `'30s'`, `'5m'`, `'1h30m'`, `'7d'`. */
export type Duration = number | string

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** The whole milliseconds of a time span, rounded up as the core does it: none that is longer than nothing becomes nothing. `what` names it in the error. */
export function milliseconds (duration: Duration, what: string): number {
  const refuse = (): never => {
    const told = typeof duration === 'string' ? JSON.stringify(duration) : String(duration)
    throw new InvalidOption('invalid_option',
      `${what} must be milliseconds from 0 on, or a text such as '500ms', '30s', '5m' or '1h30m', got ${told}`)
  }
  if (typeof duration === 'string') {
    if (!/^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+$/.test(duration)) refuse()
    let sum = 0
    for (const [, number, unit] of duration.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)/g)) sum += Number(number) * UNITS[unit!]!
    return whole(sum)
  }
  if (typeof duration !== 'number' || !Number.isFinite(duration) || duration < 0) refuse()
  return whole(duration)
}

/** What floats are off by counts for nothing: 1.1 h is 3,960,000 ms. What the core cannot read as a whole number is longer than it takes anyway. */
function whole (duration: number): number {
  return duration > 0 ? Math.min(Math.max(1, Math.ceil(duration - 1e-6)), Number.MAX_SAFE_INTEGER) : 0
}
