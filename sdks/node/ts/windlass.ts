import { Connection } from './connection.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds, type Duration } from './duration.js'
import { checkAll, enqueueAll, enqueueUnique, type EnqueuedUnique, type OnceOptions } from './enqueue.js'
import { Unsupported } from './errors.js'
import { Limits } from './limits.js'
import type { EnqueueOptions } from './options.js'
import { record, type JobPage, type JobRecord, type JobState, type QueueRecord, type StoreStatus } from './records.js'
import { Schedules } from './schedules.js'
import { change, type JobEdit, type JobFilter, type Selection, type Touched } from './select.js'
import { enqueueBy, type EnqueueSqlOptions } from './sql/enqueue_by.js'
import type { Executor } from './sql/executor.js'
import { Worker, type WorkerOptions } from './worker.js'

export type CancelReply = 'cancelled' | 'running' | 'finished' | 'not_found'
export type RetryReply = 'retried' | 'pending' | 'completed' | 'key_taken' | 'not_found'
export type DeleteReply = 'deleted' | 'running' | 'completed' | 'not_found'
export type EditReply = 'edited' | 'running' | 'finished' | 'encrypted' | 'not_found'

/**
 * Enqueues jobs, looks after them, and makes workers. Connects when that is first needed; keeps no process alive.
 *
 * ```ts
 * const windlass = new Windlass('postgres://me@localhost/shop') // or 'sqlite:jobs.db'
 * await windlass.migrate()
 * await windlass.enqueue(sendMail, { to: 'you@example.com' }, { delay: '5m' })
 * ```
 *
 * All methods reject with a {@link WindlassError}.
 */
export class Windlass {
  readonly #on: Connection
  /** Limits of queues and of their keys. */
  readonly limits: Limits
  /** Jobs that are enqueued again and again. */
  readonly schedules: Schedules

  /** Names the store: `postgres://user@host/database` with the options that README.md lists, or `sqlite:FILE`. */
  constructor (url: string) {
    this.#on = new Connection(url)
    this.limits = new Limits(this.#on)
    this.schedules = new Schedules(this.#on)
  }

  /** Creates or upgrades the store's schema. Safe to repeat, and from several processes at once. */
  async migrate (): Promise<{ from: number | null, to: number }> { return record(await this.#on.call('migrate')) }

  /** Enqueues one job; its id. It is committed and durable then. */
  async enqueue<J extends JobDefinition> (job: J, args: ArgsInput<J>, options?: OnceOptions): Promise<number> {
    return (await enqueueAll(this.#on, job, [args], options))[0]!
  }

  /** Enqueues jobs of one kind, all or none; their ids in order. */
  async enqueueMany<J extends JobDefinition> (job: J, args: Array<ArgsInput<J>>, options?: OnceOptions): Promise<number[]> {
    return enqueueAll(this.#on, job, args, options)
  }

  /** Enqueues a job unless another has its key: see the option `unique`. */
  async enqueueUnique<J extends JobDefinition> (job: J, args: ArgsInput<J>, options?: EnqueueOptions): Promise<EnqueuedUnique> {
    return enqueueUnique(this.#on, job, args, options)
  }

  /**
   * Enqueues a job in a transaction of your own, through your own driver: it exists if and when that commits. Takes a client of pg, a `sql`
   * of postgres.js, a query runner of TypeORM, or what `fromDrizzle`, `fromPrisma`, `fromKnex` or `fromKysely` make of theirs.
   */
  async enqueueIn<J extends JobDefinition> (executor: Executor, job: J, args: ArgsInput<J>, options?: EnqueueSqlOptions): Promise<number> {
    return (await this.enqueueManyIn(executor, job, [args], options))[0]!
  }

  /** Enqueues jobs in a transaction of your own, in one statement; their ids in order. */
  async enqueueManyIn<J extends JobDefinition> (executor: Executor, job: J, args: Array<ArgsInput<J>>, options?: EnqueueSqlOptions): Promise<number[]> {
    const schema = this.#on.schema()
    if (schema === undefined) throw new Unsupported('unsupported', 'only a postgres:// store works inside transactions of yours')
    await checkAll(job, args)
    return enqueueBy(executor, job, args, { schema, ...options })
  }

  /** One job with its errors and what its handlers reported; null when there is none, or none any more. */
  async job (id: number): Promise<JobRecord | null> { return record(await this.#on.call('job', { id })) }

  /** A page of jobs. */
  async jobs (filter: JobFilter & { after?: string, limit?: number } = {}): Promise<JobPage> {
    return record(await this.#on.call('jobs', filter))
  }

  /** Waits until a job ended: its record without the errors of its attempts; null when it has not ended by then. */
  async wait (id: number, timeout: Duration): Promise<JobRecord | null> {
    return record(await this.#on.call('wait', { id, timeout_ms: milliseconds(timeout, 'the timeout') }))
  }

  /** What a completed job returned; null when it has not, returned nothing, or is not there (any more). */
  async result<T = unknown> (id: number): Promise<T | null> { return await this.#on.call('result', { id }) as T | null }

  /** The last checkpoint of a job; null when it has none. */
  async checkpoint<T = unknown> (id: number): Promise<T | null> { return await this.#on.call('checkpoint', { id }) as T | null }

  /** Cancels a job, several, or all that a filter selects; running ones are asked to stop. */
  async cancel (id: number): Promise<CancelReply>
  async cancel (ids: number[]): Promise<CancelReply[]>
  async cancel (selection: Selection): Promise<Touched>
  async cancel (which: number | number[] | Selection): Promise<unknown> { return change(this.#on, 'cancel', which) }

  /** Makes dead, cancelled or retryable jobs available now. */
  async retry (id: number): Promise<RetryReply>
  async retry (ids: number[]): Promise<RetryReply[]>
  async retry (selection: Selection): Promise<Touched>
  async retry (which: number | number[] | Selection): Promise<unknown> { return change(this.#on, 'retry', which) }

  /** Removes jobs that no worker holds and that have not completed, without a trace. */
  async delete (id: number): Promise<DeleteReply>
  async delete (ids: number[]): Promise<DeleteReply[]>
  async delete (selection: Selection): Promise<Touched>
  async delete (which: number | number[] | Selection): Promise<unknown> { return change(this.#on, 'delete', which) }

  /** Changes jobs that no worker holds and that have not completed. */
  async edit (id: number, edit: JobEdit): Promise<EditReply>
  async edit (ids: number[], edit: JobEdit): Promise<EditReply[]>
  async edit (selection: Selection, edit: JobEdit): Promise<Touched>
  async edit (which: number | number[] | Selection, edit: JobEdit): Promise<unknown> { return change(this.#on, 'edit', which, edit) }

  /** Stops claiming from a queue; running jobs finish. */
  async pause (queue: string): Promise<void> { await this.#on.call('pause', { queue }) }

  /** Allows claiming from a queue again. */
  async resume (queue: string): Promise<void> { await this.#on.call('resume', { queue }) }

  /** Every queue, by name. */
  async queues (): Promise<QueueRecord[]> { return record(await this.#on.call('queues')) }

  /** The state of the store. */
  async status (): Promise<StoreStatus> { return record(await this.#on.call('status')) }

  /** Makes a worker, which begins to work by `run` or `start`. */
  worker (options: WorkerOptions): Worker { return new Worker(this.#on, options) }

  /** Closes its connections. Its workers should be closed before. */
  async close (): Promise<void> { await this.#on.close() }

  /** The same, for `await using`. */
  async [Symbol.asyncDispose] (): Promise<void> { await this.close() }
}

export type { JobState }
