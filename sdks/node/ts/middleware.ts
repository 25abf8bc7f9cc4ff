import { brand } from './brand.js'
import { ofError } from './conclusion.js'
import { Meeting } from './meeting.js'
import type { Job } from './job.js'
import { complete, Outcome } from './outcome.js'

/**
 * What runs around every handler: error reports, figures, locks. `next` runs the handler, or the middleware inside this one, and gives its outcome; it never
 * rejects: what was thrown is in `outcome.thrown`. What the function returns takes the outcome's place. One that does not call `next` leaves the handler out,
 * and returns an outcome.
 *
 * ```ts
 * windlass.use(async (job, next) => {
 *   const outcome = await next()
 *   if (outcome.thrown) report(outcome.thrown.error, { job: job.id, kind: job.kind })
 * })
 * ```
 */
export type Middleware = (job: Job, next: () => Promise<Outcome>) => Promise<Outcome | void> | Outcome | void

type Call = (args: any, job: Job<any>) => unknown
type BatchCall = (jobs: Array<Job<any>>) => unknown

/** A handler with middleware around it. */
export function around (all: readonly Middleware[], handler: Call): Call {
  if (all.length === 0) return handler
  return async (args, job) => said(await run(all, job, async () => handler(args, job)))
}

/** The handler of a batch, whose jobs each have their own way through the middleware, and meet behind it. */
export function aroundMany (all: readonly Middleware[], handler: BatchCall): BatchCall {
  if (all.length === 0) return handler
  return async jobs => {
    const meeting = new Meeting(jobs.length, handler)
    return Promise.all(jobs.map(async job => {
      const member = meeting.member()
      const outcome = await run(all, job, () => member.join(job))
      member.leave()
      try {
        return said(outcome)
      } catch (error) {
        return new Threw(error)
      }
    }))
  }
}

/** What one job of a batch failed with. */
export class Threw { constructor (readonly error: unknown) {} }
brand(Threw, 'threw')

async function run (all: readonly Middleware[], job: Job, handler: () => Promise<unknown>): Promise<Outcome> {
  const at = async (nth: number): Promise<Outcome> => {
    if (nth === all.length) return completed(await handler())
    let inner: Promise<Outcome> | undefined
    const said = await all[nth]!(job, () => inner ??= at(nth + 1).catch(failed))
    if (said instanceof Outcome) return said
    if (said !== undefined) throw new TypeError(`middleware returns an outcome or nothing, got ${said === null ? 'null' : typeof said}`)
    if (!inner) throw new TypeError('middleware that does not call next() leaves the handler out, and has to return an outcome')
    return inner
  }
  return at(0).catch(failed)
}

/** What a handler returned, as an outcome. */
function completed (value: unknown): Outcome { return value instanceof Outcome ? value : complete(value) }

/** What was thrown, as an outcome. */
function failed (error: unknown): Outcome {
  return error instanceof Outcome ? error : new Outcome(ofError(error) as Record<string, string>, undefined, { error })
}

/** The same as a handler would say it: what it threw is thrown. */
function said (outcome: Outcome): unknown {
  if (outcome.thrown) throw outcome.thrown.error
  return outcome
}
