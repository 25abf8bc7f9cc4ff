import { milliseconds, type Duration } from './duration.js'
import { InvalidOption } from './errors.js'
import { encodeStored } from './json.js'
import { onlyKnown } from './known.js'

/** When failed attempts are tried again: `base`, then growing, at most `max`, give or take `jitter`. */
export interface RetryPolicy {
  /** How delays grow. Default exponential. */
  backoff?: 'exponential' | 'linear' | 'fixed' | undefined
  /** The first delay. Default 15 s. */
  base?: Duration | undefined
  /** By what an exponential one grows. Default 2. */
  factor?: number | undefined
  /** The longest delay. Default a day, and `base` where the delay is fixed. */
  max?: Duration | undefined
  /** By what share of itself a delay varies, 0 to 1. Default 0.1, and 0 where the delay is fixed. */
  jitter?: number | undefined
}

/** What makes a job unique, by `key`, by all `args`, or by `fields` of them. */
export interface Unique {
  /** A key of your own: 1 to 200 bytes. */
  key?: string | undefined
  /** By all args. */
  args?: true | undefined
  /** By these fields of the args. */
  fields?: readonly string[] | undefined
  /** Among the jobs of its kind (default) or of its queue. */
  in?: 'kind' | 'queue' | undefined
  /** Until it is finished (default) or started. */
  until?: 'started' | 'finished' | undefined
  /** For a time instead: without `until`. */
  for?: Duration | undefined
  /** What happens when another job has the key: it stays (default), is replaced, its time begins anew (with `for`), or the call fails. */
  onConflict?: 'keep' | 'replace' | 'extend' | 'error' | undefined
  /** With `replace`: how long a job may be put off by that. */
  maxWait?: Duration | undefined
}

/** What may hold for all jobs of a kind. */
export interface JobOptions {
  /** Where it waits. Default `default`. */
  queue?: string | undefined
  /** Lower runs first: -100 to 100, default 0. */
  priority?: number | undefined
  /** How often it is tried: 1 to 1000, default 20. */
  maxAttempts?: number | undefined
  /** How long an attempt may take. */
  timeout?: Duration | undefined
  /** When failed attempts are tried again. */
  retryPolicy?: RetryPolicy | undefined
  /** What jobs can be found by: at most 20. */
  tags?: readonly string[] | undefined
  /** How many starts it takes of the rate of its queue. Default 1. */
  cost?: number | undefined
  /** What makes a job unique. */
  unique?: Unique | undefined
  /** Has args, result and checkpoints sealed before they are stored: only who has the keys can read them. */
  encrypted?: boolean | undefined
}

/** What may hold for one enqueue. */
export interface EnqueueOptions extends JobOptions {
  /** Not before so long from now, by the store's clock. */
  delay?: Duration | undefined
  /** Not before this time. */
  scheduledAt?: Date | undefined
  /** Not started from this time on, but cancelled. */
  expiresAt?: Date | undefined
  /** Not started when it has waited for so long. */
  expiresIn?: Duration | undefined
  /** Whom or what the job is about, such as a tenant: 1 to 200 bytes. Limits of a queue's keys go by it. */
  key?: string | undefined
  /** A small object for the handler and for people. */
  meta?: Record<string, unknown> | undefined
}

/** @internal The names of all options of a job. */
export const KNOWN = ['queue', 'priority', 'maxAttempts', 'timeout', 'retryPolicy', 'tags', 'cost', 'unique', 'encrypted', 'delay', 'scheduledAt',
  'expiresAt', 'expiresIn', 'key', 'meta']

const OF_UNIQUE = ['key', 'args', 'fields', 'in', 'until', 'for', 'onConflict', 'maxWait']

/** A job as the core reads it: the fields of a line of `windlass enqueue --many`, without args. */
export type WireJob = { kind: string } & Record<string, unknown>

/** The job that a kind and options make. Throws `InvalidOption` for options that there are not and for `unique` that says too much or too little; ranges are checked by the core. */
export function wireJob (kind: string, defaults: JobOptions, options: EnqueueOptions = {}): WireJob {
  onlyKnown(options, KNOWN, `a job of kind "${kind}"`)
  const all: EnqueueOptions = { ...defaults, ...said(options) }
  const none = Object.entries(all).find(([name, value]) => value === null && name !== 'unique')
  // As of a row that has none: a job without its key, or in another queue, is not what was meant.
  if (none !== undefined) throw new InvalidOption('invalid_option', `${none[0]} of a job of kind "${kind}" is null: leave it out where that is meant`)
  if (all.unique !== undefined) onlyKnown(all.unique, OF_UNIQUE, 'unique')
  const wrong = all.unique && wrongUnique(all.unique)
  if (wrong !== undefined) throw new InvalidOption('invalid_option', `a unique job of kind "${kind}": ${wrong}`)
  if (all.meta !== undefined) encodeStored(all.meta, 'meta', InvalidOption) // refuses what JSON would empty
  return {
    kind,
    queue: all.queue,
    priority: all.priority,
    max_attempts: all.maxAttempts,
    scheduled_at: time(all.scheduledAt, 'scheduledAt'),
    delay_ms: span(all.delay, 'delay'),
    expires_at: time(all.expiresAt, 'expiresAt'),
    expires_in_ms: span(all.expiresIn, 'expiresIn'),
    timeout_ms: span(all.timeout, 'timeout'),
    retry_policy: all.retryPolicy && wirePolicy(all.retryPolicy),
    key: all.key,
    meta: all.meta,
    tags: all.tags,
    cost: all.cost,
    encrypted: all.encrypted,
    ...all.unique && wireUnique(all.unique),
  }
}

/** What is said: `{ queue: undefined }` leaves the queue as the definition has it. */
function said (options: EnqueueOptions): EnqueueOptions {
  for (const name in options) {
    if (options[name as keyof EnqueueOptions] === undefined) return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  }
  return options
}

/** What holds for all jobs of a kind that say nothing themselves, as the core reads it. */
export interface KindRules { readonly timeout_ms: number | undefined, readonly retry_policy: ReturnType<typeof wirePolicy> | undefined }

/** The same of the definition of a kind; undefined when it says nothing. */
export function rulesOf ({ timeout, retryPolicy }: JobOptions): KindRules | undefined {
  if (timeout === undefined && retryPolicy === undefined) return undefined
  return { timeout_ms: span(timeout, 'timeout'), retry_policy: retryPolicy && wirePolicy(retryPolicy) }
}

/** A retry policy as the core reads it. */
export function wirePolicy (policy: RetryPolicy) {
  onlyKnown(policy, ['backoff', 'base', 'factor', 'max', 'jitter'], 'a retry policy')
  const { backoff, base, factor, max, jitter } = policy
  return { backoff, base_ms: span(base, 'retryPolicy.base'), factor, max_ms: span(max, 'retryPolicy.max'), jitter }
}

/** What of it does not go together, by its names here: the core would say it by those of the wire. */
function wrongUnique ({ key, args, fields, until, for: window, onConflict, maxWait }: Unique): string | undefined {
  const keys = [key !== undefined, args === true, fields !== undefined].filter(Boolean).length
  // As of a row that has none: the job would be stored without the guard that was meant.
  if (key === null || fields === null) return `unique.${key === null ? 'key' : 'fields'} is null, by which nothing is unique: leave unique out where that is meant`
  if (keys === 0) return 'say what makes it unique: unique.key, unique.args or unique.fields'
  if (keys > 1) return 'unique.key, unique.args and unique.fields exclude each other'
  if (until !== undefined && window !== undefined) return 'unique.until and unique.for exclude each other'
  if (maxWait !== undefined && onConflict !== 'replace') return "unique.maxWait needs unique.onConflict 'replace'"
  if (onConflict === 'extend' && window === undefined) return "unique.onConflict 'extend' needs unique.for, the time that begins anew"
  return undefined
}

/** Refuses a key of an enqueue that is null, as of a row that has none: it would be stored without the guard that was meant. */
export function refuseNoKey (key: unknown): void {
  if (key === null) throw new InvalidOption('invalid_option', 'idempotencyKey is null: leave it out where a repeated call is to enqueue once more')
  if (typeof key === 'string' && !key.isWellFormed()) throw new InvalidOption('invalid_option', 'half of a surrogate pair in idempotencyKey is no text')
}

function wireUnique (unique: Unique) {
  return {
    unique_key: unique.key,
    unique_args: unique.args,
    unique_fields: unique.fields,
    unique_in: unique.in,
    unique_until: unique.until,
    unique_for_ms: span(unique.for, 'unique.for'),
    on_conflict: unique.onConflict,
    max_wait_ms: span(unique.maxWait, 'unique.maxWait'),
  }
}

/** The milliseconds of a time span that may be left out. */
export function span (duration: Duration | undefined, what: string): number | undefined {
  return duration === undefined ? undefined : milliseconds(duration, what)
}

/** The text of a time that may be left out. */
export function time (date: Date | undefined, what: string): string | undefined {
  if (date === undefined) return undefined
  const text = date instanceof Date && !Number.isNaN(date.getTime()) ? date.toISOString() : '-'
  if (/^\d/.test(text)) return text // years of four digits
  throw new InvalidOption('invalid_option', `${what} must be a valid Date, got ${String(date)}`)
}
