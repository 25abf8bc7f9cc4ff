import type { JobDefinition } from '../define.js'
import type { BatchHandler, BatchOptions, Handler } from '../handlers.js'

/** A method that works jobs, as its decorator noted it. */
export interface NotedHandler { readonly method: string | symbol, readonly job: JobDefinition, readonly batch?: BatchOptions }

/** Where a class keeps which of its methods work jobs. Other decorators may wrap the methods, so it is not kept with these. */
const NOTED = Symbol.for('windlass.nest_handlers')

/** A decorator of a method of this type. */
type Decorator<Method> = <M extends Method>(target: object, method: string | symbol, descriptor: TypedPropertyDescriptor<M>) => void

/**
 * Has a method of a provider work jobs of a kind, one by one.
 *
 * ```ts
 * @JobHandler(sendMail)
 * async send ({ to }: ArgsOf<typeof sendMail>, job: Job) { await this.mailer.send(to, { signal: job.signal }) }
 * ```
 *
 * Guards, interceptors, pipes and filters are of requests: they do not see jobs.
 */
export function JobHandler<J extends JobDefinition> (job: J): Decorator<Handler<J>> {
  return (target, method) => note(target, { method, job })
}

/** Has a method of a provider work jobs of a kind together: see `worker.handleBatch`. */
export function JobBatchHandler<J extends JobDefinition> (job: J, batch: BatchOptions): Decorator<BatchHandler<J>> {
  return (target, method) => note(target, { method, job, batch })
}

function note (target: object, handler: NotedHandler): void {
  if (!Object.hasOwn(target, NOTED)) Object.defineProperty(target, NOTED, { value: [] })
  ;(target as Record<symbol, NotedHandler[]>)[NOTED]!.push(handler)
}

/** The methods of an object that work jobs, those that its class inherited and did not note anew included. */
export function notedHandlers (object: object): NotedHandler[] {
  const found = new Map<string | symbol, NotedHandler>()
  for (let at = Object.getPrototypeOf(object); at !== null; at = Object.getPrototypeOf(at)) {
    for (const handler of Object.hasOwn(at, NOTED) ? at[NOTED] as NotedHandler[] : []) {
      if (!found.has(handler.method)) found.set(handler.method, handler)
    }
  }
  return [...found.values()]
}
