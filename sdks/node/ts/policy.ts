import type { Connection } from './connection.js'
import { milliseconds, type Duration } from './duration.js'
import { InvalidOption } from './errors.js'
import type { EventType } from './events.js'
import { onlyKnown, shown } from './known.js'
import { span } from './options.js'
import { record } from './records.js'

/** How jobs end. */
export type EndState = 'completed' | 'cancelled' | 'discarded'

/** The policy of a store: the same for all workers on it. */
export interface Settings {
  /** How long completed jobs stay readable, at least. */
  retentionMs: number
  /** How long cancelled and discarded jobs stay readable. */
  deadRetentionMs: number
  /** How long entries of the audit log are kept. */
  auditRetentionMs: number
  /** PostgreSQL: when the log moves on to its next segment. */
  segmentBytes: number
  /** A job that so many dying workers held is discarded: at least 3. */
  maxCrashes: number
}

/** What to change of the settings. */
export interface SettingsChange { retention?: Duration | undefined, deadRetention?: Duration | undefined, auditRetention?: Duration | undefined, segmentBytes?: number | undefined, maxCrashes?: number | undefined }

/** What is kept of the jobs of one queue that ended in one way. */
export interface RetentionRule {
  /** Left out: every queue that has no rule of its own. */
  queue?: string | undefined
  outcome: EndState
  /** How long they are kept. */
  age?: Duration | undefined
  /** How many are kept, those that ended last; not for completed jobs. */
  count?: number | undefined
}

/** The same as it is kept: what does not apply is null. */
export interface RetentionRecord { queue: string | null, outcome: EndState, ageMs: number | null, count: number | null }

/** Which counters to read, and how much time one count is of. */
export interface HistoryOptions {
  /** Whole minutes; default one. */
  step?: Duration | undefined
  queue?: string | undefined
  kind?: string | undefined
  outcome?: Exclude<EventType, 'enqueued' | 'started'> | undefined
}

/** How many jobs ended in which way. */
export interface History {
  stepMs: number
  /** What ended before this is counted. */
  countedUntil: Date
  /** By time, queue, kind and outcome; none is 0. A queue or kind that was not told apart is null. */
  counts: Array<{ at: Date, queue: string | null, kind: string | null, outcome: EventType, count: number }>
}

export async function settings (on: Connection): Promise<Settings> { return record(await on.call('settings')) }

export async function configure (on: Connection, change: SettingsChange): Promise<void> {
  onlyKnown(change, ['retention', 'deadRetention', 'auditRetention', 'segmentBytes', 'maxCrashes'], 'the settings')
  const { retention, deadRetention, auditRetention, segmentBytes, maxCrashes } = change
  await on.call('configure', {
    retention_ms: span(retention, 'retention'), dead_retention_ms: span(deadRetention, 'deadRetention'), audit_retention_ms: span(auditRetention, 'auditRetention'), segment_bytes: segmentBytes, max_crashes: maxCrashes,
  })
}

export async function retention (on: Connection): Promise<RetentionRecord[]> { return record(await on.call('retention')) }

export async function setRetention (on: Connection, rules: readonly RetentionRule[]): Promise<void> {
  if (!Array.isArray(rules)) throw new InvalidOption('invalid_option', `setRetention takes an array of rules, got ${shown(rules)}`)
  for (const rule of rules) onlyKnown(rule, ['queue', 'outcome', 'age', 'count'], 'a retention rule')
  await on.call('set_retention', { rules: rules.map(({ age, ...rule }) => ({ ...rule, age_ms: span(age, 'age') })) })
}

export async function history (on: Connection, last: Duration, { step, ...filter }: HistoryOptions): Promise<History> {
  return record(await on.call('history', { last_ms: milliseconds(last, 'the time to look back'), step_ms: span(step, 'step'), ...filter }))
}
