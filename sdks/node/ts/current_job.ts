import { AsyncLocalStorage } from 'node:async_hooks'
import type { Job } from './job.js'
import type { Middleware } from './middleware.js'

const current = new AsyncLocalStorage<Job>()

/** Has {@link currentJob} know the job that code is run for: `windlass.use(trackJob)`. */
export const trackJob: Middleware = (job, next) => current.run(job, next)

/** The job that this code is run for, from however deep; undefined outside of handlers, and where nothing uses {@link trackJob}. */
export function currentJob (): Job | undefined { return current.getStore() }
