import { Logger, type OnApplicationBootstrap, type OnApplicationShutdown, type OnModuleDestroy } from '@nestjs/common'
import type { DiscoveryService } from '@nestjs/core'
import { InvalidOption } from '../errors.js'
import type { JobInfo } from '../job.js'
import type { Windlass } from '../windlass.js'
import type { Worker } from '../worker.js'
import { notedHandlers } from './handler.js'
import type { WindlassModuleOptions } from './options.js'

/**
 * The worker of an application. It starts when all providers are ready, and ends, gracefully, when the first of them are asked to go: what handlers
 * need is there until `beforeApplicationShutdown`.
 */
export class WorkerHost implements OnApplicationBootstrap, OnModuleDestroy, OnApplicationShutdown {
  readonly #options: WindlassModuleOptions
  readonly #windlass: Windlass
  readonly #discovery: DiscoveryService
  readonly #logger = new Logger('Windlass')
  #worker: Worker | undefined

  constructor (options: WindlassModuleOptions, windlass: Windlass, discovery: DiscoveryService) {
    this.#options = options
    this.#windlass = windlass
    this.#discovery = discovery
  }

  async onApplicationBootstrap (): Promise<void> {
    const { store, keys, traces, migrate, register, queues, onError = this.#report, ...rest } = this.#options
    if (queues === undefined) return
    const worker = this.#windlass.worker({ ...rest, queues, onError })
    if (this.#addHandlers(worker) === 0 && !register) {
      throw new InvalidOption('invalid_option', 'this application works queues, but no provider has a method with @JobHandler(...): ' +
        'list the class under providers of a module, or leave out the option queues where jobs are only enqueued')
    }
    register?.(worker)
    this.#worker = await worker.start()
    worker.ended().catch(error => this.#logger.error(error))
  }

  async onModuleDestroy (): Promise<void> { await this.#worker?.close() }

  async onApplicationShutdown (): Promise<void> { await this.#windlass.close() }

  /** How many there are. */
  #addHandlers (worker: Worker): number {
    let count = 0
    const seen = new Set<object>() // one may have several names
    for (const wrapper of this.#discovery.getProviders()) {
      const provider: unknown = wrapper.instance
      if (typeof provider !== 'object' || provider === null || seen.has(provider)) continue
      seen.add(provider)
      for (const { method, job, batch } of notedHandlers(provider)) {
        if (!wrapper.isDependencyTreeStatic() || wrapper.isTransient) {
          throw new InvalidOption('invalid_option', `${wrapper.name}.${String(method)} works jobs of "${job.kind}", so its class has to be a singleton: ` +
            'there is no request when a job runs, so neither it nor what it injects may be of scope REQUEST or TRANSIENT')
        }
        // Asked for when it is called: other decorators, and tests, may replace it.
        const call = (...given: unknown[]) => (provider as Record<string | symbol, (...given: unknown[]) => unknown>)[method]!(...given)
        if (batch === undefined) worker.handle(job, call)
        else worker.handleBatch(job, batch, call)
        count++
      }
    }
    return count
  }

  readonly #report = (error: unknown, { id, kind, attempt }: JobInfo): void => {
    this.#logger.error(`job ${id} (${kind}) failed at attempt ${attempt}: ${error instanceof Error ? error.message : String(error)}`,
      error instanceof Error ? error.stack : undefined)
  }
}
