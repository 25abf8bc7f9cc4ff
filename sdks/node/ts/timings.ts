import type { Connection } from './connection.js'
import { milliseconds, type Duration } from './duration.js'
import { span } from './options.js'
import { record } from './records.js'

/** How many durations there are, and what 50, 95 and 99 percent of them do not exceed, off by an eighth at most; null where there are none. */
export interface Quantiles { count: number, p50Ms: number | null, p95Ms: number | null, p99Ms: number | null }

/** How long the jobs of a queue and kind waited and ran within one step of time. A queue or kind that was not told apart is null. */
export interface Timed {
  /** When the step begins. */
  at: Date
  queue: string | null
  kind: string | null
  /** From when a job was available until its attempt began; of those that were from their enqueue on. */
  wait: Quantiles
  /** Of attempts. */
  run: Quantiles
}

/** Failed attempts with one cause. */
export interface Failure {
  fingerprint: string
  queue: string | null
  kind: string | null
  /** The line of the error of `lastJob` that says what it was, cut. */
  sample: string
  /** The newest of the jobs. */
  lastJob: number
  /** How many attempts. */
  count: number
  /** The minute, or later the quarter of an hour, in which the first of them failed. */
  firstAt: Date
  lastAt: Date
}

/** Something that happened, as a deploy: a line in the charts of the dashboard. */
export interface Mark { at: Date, label: string, actor: string }

/** Of which jobs, and how much time one answer is of. */
export interface TimingsOptions {
  /** Whole minutes; default one. */
  step?: Duration | undefined
  queue?: string | undefined
  kind?: string | undefined
}

const BACK = 'the time to look back'

export async function timings (on: Connection, last: Duration, { step, ...filter }: TimingsOptions): Promise<Timed[]> {
  const told: { timed: Timed[] } = record(await on.call('timings', { last_ms: milliseconds(last, BACK), step_ms: span(step, 'step'), ...filter }))
  return told.timed
}

export async function failures (on: Connection, last: Duration, filter: Omit<TimingsOptions, 'step'>): Promise<Failure[]> {
  const told: { failures: Failure[] } = record(await on.call('failures', { last_ms: milliseconds(last, BACK), ...filter }))
  return told.failures
}

export async function mark (on: Connection, label: string, actor: string): Promise<void> { await on.call('mark', { label, actor }) }

export async function marks (on: Connection, last: Duration): Promise<Mark[]> {
  const told: { marks: Mark[] } = record(await on.call('marks', { last_ms: milliseconds(last, BACK) }))
  return told.marks
}
