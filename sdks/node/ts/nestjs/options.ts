import type { ModuleMetadata } from '@nestjs/common'
import type { WindlassOptions } from '../connection.js'
import type { Worker, WorkerOptions } from '../worker.js'

/** The store, how it is reached, and what this process works of it: without `queues` it only enqueues. */
export interface WindlassModuleOptions extends WindlassOptions, Partial<WorkerOptions> {
  /** `postgres://me@localhost/shop`, or `sqlite:jobs.db`. */
  store: string
  /** Makes or updates the tables at the start. */
  migrate?: boolean | undefined
  /** What decorators cannot say: `worker => worker.handleInThreads(...)`. */
  register?: ((worker: Worker) => unknown) | undefined
}

/** The same, made by a function that may wait and be given providers. */
export interface WindlassModuleAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  inject?: any[] | undefined
  useFactory: (...injected: any[]) => WindlassModuleOptions | Promise<WindlassModuleOptions>
}
