import { brand } from './brand.js'
import type { ArgsOf, JobDefinition } from './define.js'
import type { Job } from './job.js'
import type { Middleware } from './middleware.js'

/** A handler that runs in threads, with what it handles. Made by {@link inThread}. */
export class ThreadHandler {
  /** @internal */
  constructor (readonly job: JobDefinition, readonly call: (args: any, job: Job<any>) => unknown, readonly use: readonly Middleware[]) {}
}
brand(ThreadHandler, 'thread_handler')

/**
 * The handler of a module for `worker.handleInThreads`: its default export, with what is to `use` around it in its thread.
 *
 * ```ts
 * export default inThread(resize, ({ image, width }) => shrink(image, width))
 * ```
 */
export function inThread<J extends JobDefinition> (
  job: J, handler: (args: ArgsOf<J>, job: Job<ArgsOf<J>>) => unknown, { use = [] }: { use?: readonly Middleware[] | undefined } = {},
): ThreadHandler {
  return new ThreadHandler(job, handler, use)
}
