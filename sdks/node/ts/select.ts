import type { Connection } from './connection.js'
import { signalOf } from './ending.js'
import { InvalidOption } from './errors.js'
import { encode, encodeStored } from './json.js'
import { onlyKnown, shown } from './known.js'
import { LEFT_OUT, lost } from './lost.js'
import { span, time } from './options.js'
import { record, type JobState } from './records.js'
import type { Duration } from './duration.js'

/** What came of a cancel: the job ended, is told to stop, has ended before, or is not there. */
export type CancelReply = 'cancelled' | 'running' | 'finished' | 'not_found'
/** What came of a retry: the job is due at once, is to run anyway, has completed, another has its unique key, or it is not there. */
export type RetryReply = 'retried' | 'pending' | 'completed' | 'key_taken' | 'not_found'
/** What came of a delete: the job is gone, runs, has completed (retention removes it), or is not there. */
export type DeleteReply = 'deleted' | 'running' | 'completed' | 'not_found'
/** What came of an edit: the job is changed, runs, has ended, has args that only who has the keys can write, expires before it would be due, has used as many attempts already, or is not there. */
export type EditReply = 'edited' | 'running' | 'finished' | 'encrypted' | 'expires' | 'attempts_used' | 'not_found'

/** Which jobs. */
export interface JobFilter {
  state?: JobState | undefined
  queue?: string | undefined
  kind?: string | undefined
  tag?: string | undefined
  /** Their last error contains this text, in any case of A to Z. */
  error?: string | undefined
  /** Their args contain this object: its members, and those of objects within it; encrypted args contain nothing. */
  args?: Record<string, unknown> | undefined
}

/** All jobs that a filter selects; an empty one needs `everything: true`. */
export interface Selection extends JobFilter {
  /** These, instead of a filter: many of them at a pace, or without a change to see what would become of them. */
  ids?: readonly number[] | undefined
  everything?: boolean | undefined
  /** Changes nothing, and says what would be. */
  dryRun?: boolean | undefined
  /** Stops after so many. */
  atMost?: number | undefined
  /** So many a second at most. */
  perSecond?: number | undefined
  /** Ends it, which rejects with the reason of the signal then: what was done by then is done. */
  signal?: AbortSignal | undefined
}

/** How many jobs were touched. */
export interface Touched {
  selected: number
  /** Cancelled, retried, edited or deleted; in a dry run, as all here, those that would be. */
  done: number
  /** Running jobs that were asked to stop. */
  asked: number
  encrypted: number
  /** Jobs that had moved on meanwhile. */
  left: number
  dryRun: boolean
}

/** What to change of jobs. */
export interface JobEdit {
  /** Available now. */
  now?: true | undefined
  delay?: Duration | undefined
  scheduledAt?: Date | undefined
  queue?: string | undefined
  priority?: number | undefined
  maxAttempts?: number | undefined
  args?: unknown | undefined
}

/** Does something to one job, to several, or to all that a filter selects. */
export async function change (on: Connection, op: 'cancel' | 'retry' | 'delete' | 'edit', which: number | number[] | Selection, edit?: JobEdit, odd?: unknown): Promise<unknown> {
  if (typeof odd === 'object' && odd !== null) { // as `{ dryRun: true }`, without which it would be done
    throw new InvalidOption('invalid_option', `${op} takes its options together with the ids: { ids, dryRun: true }`)
  }
  if (typeof which !== 'object' && typeof which !== 'number' || which === null) {
    throw new InvalidOption('invalid_option', `${op} takes the id of a job, an array of ids, or a filter such as { queue: 'mail' }; got ${shown(which)}`)
  }
  const payload = typeof which === 'number' ? { ids: [which] } : Array.isArray(which) ? { ids: which } : wireSelection(which)
  const signal = typeof which === 'number' || Array.isArray(which) ? undefined : signalOf(which, op)
  if (!Array.isArray(which) && typeof which === 'object') {
    refuseNull(which)
    checkFilter(which)
  }
  if (edit?.args !== undefined) encodeStored(edit.args, 'the args of the edit')
  const text = encode({ ...payload, edit: edit && wireEdit(edit) }, 'what is selected or changed', InvalidOption)
  const answer = JSON.parse(await on.text(op, text, signal))
  if (typeof which === 'number') return answer.replies[0]
  return Array.isArray(which) ? answer.replies : record(answer)
}

/** Refuses what is null, as of a row that has none: without it more jobs are selected than were meant. */
function refuseNull (selection: Selection): void {
  const none = Object.entries(selection).find(([, value]) => value === null)
  if (none) throw new InvalidOption('invalid_option', `${none[0]} is null, without which more jobs are selected: leave it out where that is meant`)
}

/** Refuses args to look for of which JSON loses a part: without it they are those of more jobs than are meant. */
export function checkFilter (filter: JobFilter | undefined): void {
  if (filter?.args === undefined) return
  const what = 'the args that are looked for'
  encodeStored(filter.args, what, InvalidOption)
  const vague = lost(filter.args, LEFT_OUT, what)
  if (vague !== undefined) throw new InvalidOption('invalid_option', vague)
}

function wireSelection ({ everything, dryRun, atMost, perSecond, signal: _, ...filter }: Selection) {
  const any = Object.values(filter).some(value => value !== undefined)
  return { filter: any ? filter : undefined, everything, dry_run: dryRun, at_most: atMost, per_second: perSecond }
}

function wireEdit (edit: JobEdit) {
  onlyKnown(edit, ['now', 'delay', 'scheduledAt', 'queue', 'priority', 'maxAttempts', 'args'], 'an edit')
  const { now, delay, scheduledAt, queue, priority, maxAttempts, args } = edit
  return {
    now, delay_ms: span(delay, 'delay'), scheduled_at: time(scheduledAt, 'scheduledAt'), queue, priority, max_attempts: maxAttempts, args,
  }
}
