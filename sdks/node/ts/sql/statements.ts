import { needsList } from '../args_list.js'
import type { ArgsInput, JobDefinition } from '../define.js'
import { InvalidArgs, InvalidOption } from '../errors.js'
import { encode, encodeStored } from '../json.js'
import { shown } from '../known.js'
import { refuseNoKey, wireJob, type EnqueueOptions, type WireJob } from '../options.js'

/** A statement: its text, and its parameters, which are all texts. */
export type Statement = [text: string, params: string[]]

/** Options of an enqueue by SQL. */
export interface EnqueueSqlOptions extends EnqueueOptions {
  /** The schema of Windlass. Default `windlass`. */
  schema?: string | undefined
  /** As of `enqueue`. */
  idempotencyKey?: string | undefined
}

// Jobs as `enqueue_many` takes them. Spans become times there, by the clock of the database. The parameters come in the order of their
// numbers, each once, and no question mark is in the text: that is what adapters of all libraries can pass on.
const jobs = (param: string) => `(SELECT jsonb_agg((j - 'delay_ms' - 'expires_in_ms' - 'timeout_ms') || jsonb_strip_nulls(jsonb_build_object(` +
  `'scheduled_at', coalesce((j->>'scheduled_at')::timestamptz, clock_timestamp() + (j->>'delay_ms')::int8 * interval '1 millisecond'), ` +
  `'expires_at', coalesce((j->>'expires_at')::timestamptz, clock_timestamp() + (j->>'expires_in_ms')::int8 * interval '1 millisecond'), ` +
  `'timeout', (j->>'timeout_ms')::int8 * interval '1 millisecond')) ORDER BY n) ` +
  `FROM jsonb_array_elements(${param}::text::jsonb) WITH ORDINALITY AS job(j, n))`

// Keys in ascending order, as all of Windlass's statements take them: transactions that took the same ones in another order would wait for each other. Jobs
// of one key, which is the first half of the hash, keep the order of the call, in which each meets those before it. Ids come in that of the call.
const UNIQUE = `SELECT u.id FROM (SELECT j, n FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS job(j, n) ` +
  `ORDER BY sha256(convert_to(j->>'unique_text', 'UTF8')), n OFFSET 0) AS jobs, LATERAL {schema}.enqueue_unique(` +
  `j->>'kind', j->'args', unique_key => j->>'unique_key', ` +
  `unique_fields => CASE WHEN j->'unique_fields' IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(j->'unique_fields')) END, ` +
  `unique_in => coalesce(j->>'unique_in', 'kind'), unique_until => coalesce(j->>'unique_until', 'finished'), ` +
  `unique_for => (j->>'unique_for_ms')::int8 * interval '1 millisecond', on_conflict => coalesce(j->>'on_conflict', 'keep'), ` +
  `max_wait => (j->>'max_wait_ms')::int8 * interval '1 millisecond', queue => coalesce(j->>'queue', 'default'), ` +
  `priority => coalesce((j->>'priority')::int4, 0), max_attempts => coalesce((j->>'max_attempts')::int4, 20), ` +
  `scheduled_at => coalesce((j->>'scheduled_at')::timestamptz, clock_timestamp() + (j->>'delay_ms')::int8 * interval '1 millisecond'), ` +
  `key => j->>'key', meta => j->'meta') AS u ORDER BY n`

/**
 * The statement that enqueues a job, for any driver of PostgreSQL, edge runtimes included. It gives one row with the column `id`.
 * A schema of the job is not asked: `windlass.enqueueIn` does that.
 *
 * ```ts
 * const [text, params] = enqueueSql(sendMail, { to: 'you@example.com' })
 * await neon.query(text, params)
 * ```
 */
export function enqueueSql<J extends JobDefinition> (job: J, args: ArgsInput<J>, options?: EnqueueSqlOptions): Statement {
  return enqueueManySql(job, [args], options)
}

/** The statement that enqueues jobs of one kind. It gives a row with the column `id` for each, in order. */
export function enqueueManySql<J extends JobDefinition> (job: J, args: Array<ArgsInput<J>>, options: EnqueueSqlOptions = {}): Statement {
  const { schema = 'windlass', idempotencyKey, ...rest } = options
  needsList(args)
  if (typeof schema !== 'string') throw new InvalidOption('invalid_option', `the schema is a text, got ${shown(schema)}`)
  refuseNoKey(idempotencyKey)
  const wire = wireJob(job.kind, job.options, rest)
  const { unique_args: byArgs, encrypted, ...one } = wire
  refuseTwice(one)
  const start = wellFormed(encode(one, OPTIONS, InvalidOption), OPTIONS, InvalidOption).slice(0, -1)
  const what = `the args of kind "${job.kind}"`
  const texts = args.map(each => wellFormed(encodeStored(each === undefined ? {} : each, what), what, InvalidArgs))
  const list = (jobs: string[]) => `[${jobs.join(',')}]`
  const name = `"${schema.replaceAll('"', '""')}"`
  if (encrypted) {
    throw new InvalidOption('invalid_option', `jobs of kind "${job.kind}" are encrypted, which plain SQL cannot do; windlass.enqueueIn does, with keys and without an idempotencyKey`)
  }
  if (byArgs || one.unique_key !== undefined || one.unique_fields !== undefined) {
    refuseUnique(one, idempotencyKey)
    // One job needs no order, and those of one key have that of the call.
    const ordered = texts.length > 1 && one.unique_key === undefined
    const same = (text: string) => ordered ? `"unique_text":${JSON.stringify(uniqueText(one, text))},` : ''
    return [UNIQUE.replace('{schema}', () => name), [list(texts.map(text => `${start},${same(text)}"args":${text}}`))]]
  }
  const all = list(texts.map(text => `${start},"args":${text}}`))
  if (idempotencyKey !== undefined) {
    return [`SELECT id FROM ${name}.enqueue_many_once($1::text, ${jobs('$2')}) AS id`, [idempotencyKey, all]]
  }
  return [`SELECT id FROM ${name}.enqueue_many(${jobs('$1')}) AS id`, [all]]
}

const OPTIONS = 'the options of the job'

/** Refuses what JSON can write and PostgreSQL cannot store, which would end the transaction that it comes in. */
function wellFormed (text: string, what: string, refused: typeof InvalidArgs | typeof InvalidOption): string {
  const [, code] = /(?<!\\)(?:\\\\)*\\u(0000|d[89a-f][0-9a-f]{2})/.exec(text) ?? []
  if (code === undefined) return text
  throw new refused(refused === InvalidArgs ? 'invalid_args' : 'invalid_option', `${what} have ${code === '0000' ? 'a NUL character' : 'half of a surrogate pair'}, which is no text that can be stored`)
}

/** The text whose hash begins with the key of a job that is unique by args: docs/design/unique.md. The server makes the key itself; this says its place among others. */
function uniqueText (job: WireJob, text: string): string {
  const args = JSON.parse(text)
  const fields = job.unique_fields as readonly string[] | undefined
  const value = fields ? Object.fromEntries(fields.map(field => [field, args?.[field]])) : args
  const scope = job.unique_in ?? 'kind'
  return canonical([scope, scope === 'kind' ? job.kind : job.queue ?? 'default', fields ? 'fields' : 'args', value])
}

/** A value that was read from JSON in the canonical form of RFC 8785: what the language writes, with the fields of objects in the order of their names. */
function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
  return `{${fields.map(([name, part]) => `${JSON.stringify(name)}:${canonical(part)}`).join(',')}}`
}

/** What the SQL function for unique jobs does not take, by its names on the wire and here. */
const BEYOND: Array<[wire: string, option: string]> = [
  ['timeout_ms', 'timeout'], ['retry_policy', 'retryPolicy'], ['expires_at', 'expiresAt'], ['expires_in_ms', 'expiresIn'], ['tags', 'tags'], ['cost', 'cost'],
]

/** @internal Whether the SQL functions cannot do these, and a statement of the engine's can: what is encrypted, or is unique with further options. */
export function beyondSql (job: JobDefinition, options: EnqueueOptions): boolean {
  const wire = wireJob(job.kind, job.options, options)
  return wire.encrypted === true || Boolean(wire.unique_key ?? wire.unique_fields ?? wire.unique_args) && BEYOND.some(([name]) => wire[name] !== undefined)
}

/** What excludes each other, which the statement would choose between, and what it would take for something else. */
function refuseTwice (job: WireJob): void {
  if (job.expires_in_ms === 0) throw new InvalidOption('invalid_option', 'expiresIn of 0 leaves no time to start the job; leave it out')
  const { tags } = job
  if (tags !== undefined && !(Array.isArray(tags) && tags.every(tag => typeof tag === 'string'))) {
    throw new InvalidOption('invalid_option', `tags must be an array of texts, got ${JSON.stringify(tags)}`)
  }
  for (const [at, span, options] of [['scheduled_at', 'delay_ms', 'scheduledAt and delay'], ['expires_at', 'expires_in_ms', 'expiresAt and expiresIn']] as const) {
    if (job[at] !== undefined && job[span] !== undefined) throw new InvalidOption('invalid_option', `${options} exclude each other`)
  }
}

function refuseUnique (job: WireJob, idempotencyKey: string | undefined): void {
  const found = BEYOND.find(([name]) => job[name] !== undefined)
  if (found === undefined && idempotencyKey === undefined) return
  throw new InvalidOption('invalid_option', found === undefined
    ? 'a unique job takes no idempotencyKey: its own key makes an enqueue repeatable'
    : `a unique job that is enqueued by plain SQL takes no ${found[1]}; windlass.enqueueIn does, by a statement of the engine`)
}
