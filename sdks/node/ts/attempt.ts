import { AsyncResource } from 'node:async_hooks'
import { UnreadableArgs } from './batch_reader.js'
import type { JobDefinition } from './define.js'
import { eachOf } from './each_of.js'
import { WindlassError } from './errors.js'
import type { Registered } from './handlers.js'
import type { Job } from './job.js'
import { Threw } from './middleware.js'
import { validate } from './schema.js'

/** Told what became of jobs. */
export interface Settle {
  done (job: Job, value: unknown): void
  failed (job: Job, error: unknown): void
}

/** Runs one job. Nothing that its handler does throws here. */
export function attempt (job: Job, { job: definition, one }: Registered, settle: Settle): void {
  if (definition.schema || job.args instanceof UnreadableArgs) return void checked(job, definition, settle).then(fits => { if (fits) call(job, one!, settle) })
  call(job, one!, settle)
}

/** Where a handler runs: what it enters of an AsyncLocalStorage, a tenant or a request, is not there for the next. */
function apart (): AsyncResource { return new AsyncResource('windlass.job', { requireManualDestroy: true }) }

function call (job: Job, handler: (args: any, job: Job) => unknown, settle: Settle): void {
  let value
  try {
    value = apart().runInAsyncScope(handler, undefined, job.args, job)
  } catch (error) {
    return settle.failed(job, error)
  }
  if (value === undefined) return settle.done(job, value)
  follow(value, value => settle.done(job, value), error => settle.failed(job, error))
}

/** Runs jobs together: each gets its own outcome, or all fail alike. */
export async function attemptMany (jobs: Job[], { job: definition, many }: Registered, settle: Settle): Promise<void> {
  const fits = await Promise.all(jobs.map(job => checked(job, definition, settle)))
  const left = jobs.filter((_, nth) => fits[nth])
  if (left.length === 0) return
  try {
    const own = [...left] // its own array, to take apart
    const values = eachOf(await apart().runInAsyncScope(many!.call, undefined, own), left.length)
    left.forEach((job, nth) => {
      const value = values?.[nth]
      if (value instanceof Threw) settle.failed(job, value.error)
      else settle.done(job, value)
    })
  } catch (error) {
    for (const job of left) settle.failed(job, error)
  }
}

/** Whether the args of a job can be read and fit its schema; else it has failed. */
async function checked (job: Job, { schema, options }: JobDefinition, settle: Settle): Promise<boolean> {
  try {
    if (job.args instanceof UnreadableArgs) throw new WindlassError('invalid_args', 'the args are no JSON', { cause: job.args.error })
    if (schema) job.args = await validate(job.kind, schema, job.args, options.encrypted)
    return true
  } catch (error) {
    settle.failed(job, error)
    return false
  }
}

/** Waits for a value that may be a promise, or anything with a `then`. */
function follow (value: any, done: (value: unknown) => void, failed: (error: unknown) => void): void {
  let then
  try {
    if (value instanceof Promise) return void value.then(done, failed)
    then = typeof value === 'object' && value !== null ? value.then : undefined
  } catch (error) {
    return failed(error)
  }
  if (typeof then === 'function') return void Promise.resolve(value).then(done, failed)
  done(value)
}
