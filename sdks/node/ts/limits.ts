import type { Connection } from './connection.js'
import { milliseconds, type Duration } from './duration.js'
import { onlyKnown } from './known.js'
import { record } from './records.js'

/** How many jobs of a queue run, over all workers of the store. Left out: no limit. */
export interface QueueLimits {
  /** How many at once. */
  concurrency?: number | undefined
  /** How many start in a time: `count` in every `period`, of them `burst` at once. */
  rate?: { count: number, period: Duration, burst?: number | undefined } | undefined
}

/** What holds for the jobs of a queue that have the same key. */
export interface KeyLimit {
  /** How many workers hold at once. */
  concurrency?: number | undefined
  /** One after the other, in the order of their ids. */
  serial?: boolean | undefined
  /** How many start in a time: `count` in every `period`. A job counts from when it is handed out until a period after its end. */
  rate?: { count: number, period: Duration } | undefined
  /** How large a share of the queue they get: 1 to 1000, default 1. */
  weight?: number | undefined
}

/** A limit as the store tells it. */
export interface KeyLimitRecord extends Omit<KeyLimit, 'rate'> { rate?: { count: number, periodMs: number } | undefined }

/** The limits of a queue's keys. */
export interface KeyLimits { default: KeyLimitRecord, named: Record<string, KeyLimitRecord> }

type Rate = { count: number, period: Duration, burst?: number | undefined }

const OF_KEYS = ['concurrency', 'serial', 'rate', 'weight']

function sent (rate: Rate | undefined): object | undefined {
  if (rate !== undefined) onlyKnown(rate, ['count', 'period', 'burst'], 'a rate')
  return rate && { ...rate, period: undefined, period_ms: milliseconds(rate.period, 'rate.period') }
}

/** Limits of queues and of their keys: `windlass.limits`. */
export class Limits {
  readonly #on: Connection

  /** @internal */
  constructor (on: Connection) { this.#on = on }

  /** Limits a queue; `{}` lifts its limits. `await windlass.limits.set('mail', { rate: { count: 100, period: '1m' } })` */
  async set (queue: string, limits: QueueLimits): Promise<void> {
    onlyKnown(limits, ['concurrency', 'rate'], "a queue's limits") // a typo would lift them
    const { concurrency, rate } = limits
    await this.#on.call('limit', { queue, limits: { concurrency, rate: sent(rate) } })
  }

  /** Limits every key of a queue that has no limit of its own. */
  async setKeys (queue: string, limit: KeyLimit): Promise<void> {
    onlyKnown(limit, OF_KEYS, "a key's limit")
    await this.#on.call('limit_keys', { queue, limit: { ...limit, rate: sent(limit.rate) } })
  }

  /** Limits one key of a queue. */
  async setKey (queue: string, key: string, limit: KeyLimit): Promise<void> {
    onlyKnown(limit, OF_KEYS, "a key's limit")
    await this.#on.call('limit_key', { queue, key, limit: { ...limit, rate: sent(limit.rate) } })
  }

  /** Has the default hold for a key again. */
  async removeKey (queue: string, key: string): Promise<void> { await this.#on.call('unlimit_key', { queue, key }) }

  /** The queue knows no keys any more. */
  async removeKeys (queue: string): Promise<void> { await this.#on.call('unlimit_keys', { queue }) }

  /** The limits of a queue's keys; null for a queue that knows none. */
  async keys (queue: string): Promise<KeyLimits | null> {
    const limits = record<KeyLimits | null>(await this.#on.call('key_limits', { queue }))
    const named = Object.entries(limits?.named ?? {}).map(([key, limit]) => [key, record<KeyLimitRecord>(limit)] as const)
    return limits && { default: limits.default, named: Object.fromEntries(named) }
  }
}
