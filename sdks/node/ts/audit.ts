import type { Connection } from './connection.js'
import { InvalidOption } from './errors.js'
import { shown } from './known.js'
import { time } from './options.js'
import { record } from './records.js'

/** What this program did for somebody. */
export interface AuditEntry {
  actor: string
  /** Such as `queues.pause`. */
  action: string
  /** A queue, a schedule, a job. */
  target: string
  role?: string | undefined
  /** Which jobs, where a filter selected them: any JSON. */
  filter?: unknown
  reason?: string | undefined
  /** How many jobs were touched. */
  count?: number | undefined
  /** Default `done`. */
  outcome?: string | undefined
  requestId?: string | undefined
}

/** An entry as the store has it. */
export interface AuditRecord extends AuditEntry {
  id: string
  at: Date
  /** How: `sdk` for a program, `cli`, or by what the server knew them. */
  via: string
  /** `done`, or the code of the error or of the refusal. */
  outcome: string
}

/** Which entries a page has. */
export interface AuditFilter {
  actor?: string | undefined
  action?: string | undefined
  target?: string | undefined
  since?: Date | undefined
  /** The `next` of the page before. */
  before?: string | undefined
  /** Default 100. */
  limit?: number | undefined
}

/** The newest entries first; null: there are no more. */
export interface AuditPage { entries: AuditRecord[], next: string | null }

export async function audit (on: Connection, { since, ...filter }: AuditFilter): Promise<AuditPage> {
  return record(await on.call('audit', { ...filter, since: time(since, 'since') }))
}

export async function appendAudit (on: Connection, entries: readonly AuditEntry[]): Promise<void> {
  if (!Array.isArray(entries)) throw new InvalidOption('invalid_option', `appendAudit takes an array of entries, got ${shown(entries)}`)
  await on.call('append_audit', { entries: entries.map(({ requestId, ...entry }) => ({ ...entry, request_id: requestId })) })
}
