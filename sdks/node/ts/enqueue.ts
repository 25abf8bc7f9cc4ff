import { needsList } from './args_list.js'
import type { Connection } from './connection.js'
import type { JobDefinition } from './define.js'
import { InvalidArgs, InvalidOption } from './errors.js'
import { encode, encodeStored } from './json.js'
import { onlyKnown, shown } from './known.js'
import { KNOWN, refuseNoKey, wireJob, type EnqueueOptions } from './options.js'
import { validate } from './schema.js'
import { carrying } from './tracing.js'

/** What came of a unique job: the job that has its key now, and what became of the conflict, if there was one. */
export interface EnqueuedUnique { id: number, conflict: null | 'kept' | 'replaced' | 'extended' }

/** Options of an enqueue that can be repeated. */
export interface OnceOptions extends EnqueueOptions {
  /** 1 to 200 bytes, for the whole store. A repeated call with the same key stores nothing and returns the ids of the first. */
  idempotencyKey?: string | undefined
}

/**
 * Checks args by the schema of their job; at once, unless that is asynchronous. What is enqueued is what came in: the handler gets what the schema makes of
 * it.
 */
export function check (job: JobDefinition, args: unknown): unknown {
  return job.schema && validate(job.kind, job.schema, args)
}

/** The same for all jobs of a call; the error says which does not fit. */
async function checkAll (job: JobDefinition, args: unknown[]): Promise<void> {
  if (!job.schema) return
  for (const [nth, each] of args.entries()) {
    try {
      const checked = validate(job.kind, job.schema, each) // not by check: the ten lines of a stack reach the caller
      if (checked instanceof Promise) await checked // a turn of the loop for each job of thousands is only for schemas that want it
    } catch (error) {
      if (args.length === 1 || !(error instanceof InvalidArgs)) throw error
      throw new InvalidArgs('invalid_args', `job ${nth} of ${args.length}: ${error.message}; nothing was enqueued`)
    }
  }
}

/** Refuses what is no job. */
export function needsJob (job: unknown): void {
  if (typeof (job as JobDefinition | undefined)?.kind === 'string') return
  const made = typeof job === 'string' ? `defineJob(${JSON.stringify(job)})` : "defineJob('mail.send')"
  throw new InvalidOption('invalid_option', `an enqueue takes a job that defineJob made, such as ${made}, got ${shown(job)}`)
}

/** Enqueues jobs of one kind: one text, one call. */
export async function enqueueAll (on: Connection, job: JobDefinition, args: unknown[], options?: OnceOptions): Promise<number[]> {
  needsJob(job)
  onlyKnown(options ?? {}, [...KNOWN, 'idempotencyKey'], `a job of kind "${job.kind}"`)
  const { idempotencyKey, ...rest } = options ?? {}
  return sending(on, job, args, rest, async options => JSON.parse(await on.text('enqueue', await bulk(job, args, options, idempotencyKey))).ids)
}

/** Enqueues unique jobs of one kind: what came of each. */
export async function enqueueUnique (on: Connection, job: JobDefinition, args: unknown[], options?: EnqueueOptions): Promise<EnqueuedUnique[]> {
  needsJob(job)
  if (!job.options.unique && !options?.unique) {
    throw new InvalidOption('invalid_option',
      `say what makes a job of kind "${job.kind}" unique: the option unique, such as { args: true } or { key: '...' }`)
  }
  return sending(on, job, args, options, async options => JSON.parse(await on.text('enqueue_unique', await bulk(job, args, options))).jobs)
}

/** Runs an enqueue, as a part of its trace where there are traces. */
export async function sending<T, O extends EnqueueOptions> (
  on: Connection, job: JobDefinition, args: unknown[], options: O | undefined, run: (options: O | undefined) => Promise<T>,
): Promise<T> {
  if (!on.traces || !Array.isArray(args) || args.length === 0) return run(options)
  const what = { queue: options?.queue ?? job.options.queue ?? 'default', kind: job.kind, count: args.length }
  return on.traces.send(what, carried => run({ ...options, meta: carrying(options?.meta, carried) } as O))
}

/** Jobs of one kind as the core's operations take them. */
export async function bulk (job: JobDefinition, args: unknown[], options?: EnqueueOptions, key?: string): Promise<string> {
  needsList(args)
  refuseNoKey(key)
  return checkedAnd(job, args, () => bulkText(job, args, options, key))
}

/** The same, of args that another one checks. */
export function bulkText (job: JobDefinition, args: unknown[], options?: EnqueueOptions, key?: string): string {
  const text = encodeAll(job.kind, args)
  const says = options && Object.keys(options).length > 0
  const wire = says ? encode(wireJob(job.kind, job.options, options), OPTIONS, InvalidOption) : defined(job)
  const once = key === undefined ? '' : `,"idempotency_key":${encode(key, OPTIONS, InvalidOption)}`
  return `{"job":${wire}${once},"args":${text}}`
}

/**
 * What `write` makes of args, if they fit. It reads them before the call returns to the caller, who may use the array again; what does not fit is said first.
 */
export async function checkedAnd<T> (job: JobDefinition, args: unknown[], write: () => T): Promise<T> {
  const checked = checkAll(job, args)
  let written: T
  try {
    written = write()
  } catch (error) {
    await checked
    throw error
  }
  await checked
  return written
}

const OPTIONS = 'the options of the job'
const written = new WeakMap<JobDefinition, string>()

/** What a definition alone says of its jobs, as the core takes it: written once, so that an enqueue is its args and little else. */
function defined (job: JobDefinition): string {
  let text = written.get(job)
  if (text === undefined) written.set(job, text = encode(wireJob(job.kind, job.options), OPTIONS, InvalidOption))
  return text
}

/** The JSON array of all args; what is left out is `{}`. */
export function encodeAll (kind: string, args: unknown[]): string {
  const what = `the args of kind "${kind}"`
  // In an array JSON would make null of them.
  const odd = args.find(each => typeof each === 'function' || typeof each === 'symbol')
  if (odd !== undefined) return encode(odd, what)
  return encodeStored(args.map(each => each === undefined ? {} : each), what)
}
