import { appendAudit, audit, type AuditEntry, type AuditFilter, type AuditPage } from './audit.js'
import { Acting, Connection, type WindlassOptions } from './connection.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { milliseconds, type Duration } from './duration.js'
import { enqueueAll, enqueueUnique, type EnqueuedUnique, type OnceOptions } from './enqueue.js'
import { signalOf, type Endable } from './ending.js'
import { enqueueIn } from './enqueue_in.js'
import { Events, type EventsOptions } from './events.js'
import { InvalidOption } from './errors.js'
import { shown } from './known.js'
import { Limits } from './limits.js'
import type { Middleware } from './middleware.js'
import type { EnqueueOptions } from './options.js'
import * as policy from './policy.js'
import { record, type JobPage, type JobRecord, type JobState, type QueueFilter, type QueueRecord, type StoreStatus } from './records.js'
import { Schedules } from './schedules.js'
import {
  change, checkFilter, type CancelReply, type DeleteReply, type EditReply, type JobEdit, type JobFilter, type RetryReply, type Selection, type Touched,
} from './select.js'
import type { EnqueueSqlOptions } from './sql/enqueue_by.js'
import type { Executor } from './sql/executor.js'
import * as timings from './timings.js'
import { Worker, type WorkerOptions } from './worker.js'

/** @internal The connection of a client. */
export let connectionOf: (windlass: Windlass) => Connection

/**
 * Enqueues jobs, looks after them, and makes workers. Connects when that is first needed; keeps no process alive.
 *
 * ```ts
 * const windlass = new Windlass('postgres://me@localhost/shop') // or 'sqlite:jobs.db'
 * await windlass.migrate()
 * await windlass.enqueue(sendMail, { to: 'you@example.com' }, { delay: '5m' })
 * ```
 *
 * All methods reject with a {@link WindlassError}, and those that a `signal` ended with its reason.
 */
export class Windlass {
  static { connectionOf = windlass => windlass.#on }

  readonly #on: Connection
  /** Limits of queues and of their keys. */
  readonly limits: Limits
  /** Jobs that are enqueued again and again. */
  readonly schedules: Schedules

  /** Names the store: `postgres://user@host/database` with the options that README.md lists, or `sqlite:FILE`. */
  constructor (url: string, options?: WindlassOptions)
  /** @internal */
  constructor (on: Connection)
  constructor (on: string | Connection, options?: WindlassOptions) {
    this.#on = on instanceof Connection ? on : new Connection(on, options)
    this.limits = new Limits(this.#on)
    this.schedules = new Schedules(this.#on)
  }

  /**
   * The same Windlass, acting for somebody: what it changes (jobs, queues, limits, schedules, settings) is noted in the audit log, one entry for each call. Shares the connections
   * of this one, which is the one to be closed. With nobody named, nothing is noted.
   */
  actingAs (actor: string): Windlass { return new Windlass(new Acting(this.#on, actor)) }

  /**
   * Has a function run around every handler of the workers that are started from now on; the first is the outermost. Handlers in threads have none but what
   * their {@link inThread} names.
   */
  use (middleware: Middleware): this {
    if (typeof middleware !== 'function') throw new InvalidOption('invalid_option', `use takes a function of a job and of next, got ${middleware === null ? 'null' : typeof middleware}`)
    this.#on.middleware.push(middleware)
    return this
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
    return (await enqueueUnique(this.#on, job, [args], options))[0]!
  }

  /** Enqueues unique jobs of one kind in one call: what came of each, in order. */
  async enqueueManyUnique<J extends JobDefinition> (job: J, args: Array<ArgsInput<J>>, options?: EnqueueOptions): Promise<EnqueuedUnique[]> {
    return enqueueUnique(this.#on, job, args, options)
  }

  /**
   * Enqueues a job in a transaction of your own, through your own driver: it exists if and when that commits. Takes a client of pg, a `sql`
   * of postgres.js, a query runner of TypeORM, or what `fromDrizzle`, `fromPrisma`, `fromKnex` or `fromKysely` make of theirs; refuses pools, which are in none.
   */
  async enqueueIn<J extends JobDefinition> (executor: Executor, job: J, args: ArgsInput<J>, options?: EnqueueSqlOptions): Promise<number> {
    return (await this.enqueueManyIn(executor, job, [args], options))[0]!
  }

  /** Enqueues jobs in a transaction of your own, in one statement; their ids in order. */
  async enqueueManyIn<J extends JobDefinition> (executor: Executor, job: J, args: Array<ArgsInput<J>>, options?: EnqueueSqlOptions): Promise<number[]> {
    return enqueueIn(this.#on, executor, job, args, options)
  }

  /** One job with its errors and what its handlers reported; null when there is none, or none any more. */
  async job (id: number): Promise<JobRecord | null> { return record(await this.#on.call('job', { id })) }

  /** A page of jobs. */
  async jobs (filter: JobFilter & { after?: string | undefined, limit?: number | undefined } = {}): Promise<JobPage> {
    checkFilter(filter)
    return record(await this.#on.call('jobs', filter))
  }

  /**
   * Waits until a job ended: its record without the errors of its attempts; null when it has not ended by then. Rejects with `NotFound` when there is no such job.
   * `signal` ends the wait, not the job.
   */
  async wait (id: number, timeout: Duration, options?: Endable): Promise<JobRecord | null> {
    return record(await this.#on.call('wait', { id, timeout_ms: milliseconds(timeout, 'the timeout') }, signalOf(options, 'wait')))
  }

  /** The args of a job, opened with the `keys` of this Windlass when they are encrypted: `job` and `jobs` show these as they are stored. Null when there is no such job. */
  async args<T = unknown> (id: number): Promise<T | null> { return await this.#on.call('args', { id }) as T | null }

  /** What a completed job returned; null when it has not, returned nothing, or is not there (any more). */
  async result<T = unknown> (id: number): Promise<T | null> { return await this.#on.call('result', { id }) as T | null }

  /** The last checkpoint of a job; null when it has none. */
  async checkpoint<T = unknown> (id: number): Promise<T | null> { return await this.#on.call('checkpoint', { id }) as T | null }

  /** Cancels a job, several, or all that a filter selects; running ones are asked to stop. */
  async cancel (id: number): Promise<CancelReply>
  async cancel (ids: number[]): Promise<CancelReply[]>
  async cancel (selection: Selection): Promise<Touched>
  async cancel (which: number | number[] | Selection, odd?: unknown): Promise<unknown> { return change(this.#on, 'cancel', which, undefined, odd) }

  /** Makes dead, cancelled or retryable jobs available now. */
  async retry (id: number): Promise<RetryReply>
  async retry (ids: number[]): Promise<RetryReply[]>
  async retry (selection: Selection): Promise<Touched>
  async retry (which: number | number[] | Selection, odd?: unknown): Promise<unknown> { return change(this.#on, 'retry', which, undefined, odd) }

  /** Removes jobs that no worker holds and that have not completed, without a trace. */
  async delete (id: number): Promise<DeleteReply>
  async delete (ids: number[]): Promise<DeleteReply[]>
  async delete (selection: Selection): Promise<Touched>
  async delete (which: number | number[] | Selection, odd?: unknown): Promise<unknown> { return change(this.#on, 'delete', which, undefined, odd) }

  /** Changes jobs that no worker holds and that have not completed. */
  async edit (id: number, edit: JobEdit): Promise<EditReply>
  async edit (ids: number[], edit: JobEdit): Promise<EditReply[]>
  async edit (selection: Selection, edit: JobEdit): Promise<Touched>
  async edit (which: number | number[] | Selection, edit: JobEdit, odd?: unknown): Promise<unknown> { return change(this.#on, 'edit', which, edit, odd) }

  /** Stops claiming from a queue; running jobs finish. */
  async pause (queue: string): Promise<void> { await this.#on.call('pause', { queue }) }

  /** Allows claiming from a queue again. */
  async resume (queue: string): Promise<void> { await this.#on.call('resume', { queue }) }

  /** Asks a worker to take no more jobs, end what it runs, and go: its `run` ends. `status()` names the workers. */
  async drainWorker (worker: number): Promise<void> { await this.#on.call('drain_worker', { worker }) }

  /** Every queue, by name; or those with `search` in their name, behind the name `after`, `limit` at most. */
  async queues (filter: QueueFilter = {}): Promise<QueueRecord[]> { return record(await this.#on.call('queues', { ...filter })) }

  /** One queue; undefined when there is no such queue. */
  async queue (name: string): Promise<QueueRecord | undefined> {
    if (typeof name !== 'string') throw new InvalidOption('invalid_option', `queue takes the name of a queue, got ${shown(name)}; queues() lists all`)
    return record<QueueRecord[]>(await this.#on.call('queues', { name }))[0]
  }

  /** Whether a worker of these queues, which knows these kinds (default: all), would be given a job now, if only to find that it does not know its kind. Cheap. */
  async anyAvailable ({ queues, kinds }: { queues: readonly string[], kinds?: readonly string[] | undefined }): Promise<boolean> {
    return await this.#on.call('any_available', { queues, kinds }) as boolean
  }

  /**
   * What happened to jobs, in order, from a cursor on that you keep. Iterated it waits for what comes; `page()` gives what is there.
   *
   * ```ts
   * for await (const event of windlass.events({ after: await lastCursor(), events: ['discarded'] })) await alert(event) // keeps event.cursor, too
   * ```
   */
  events (options: EventsOptions = {}): Events { return new Events(this.#on, options) }

  /** How many jobs ended in which way, by time, queue and kind, for up to 30 days back. */
  async history (last: Duration, options: policy.HistoryOptions = {}): Promise<policy.History> { return policy.history(this.#on, last, options) }

  /** How long jobs waited and ran, by time, queue and kind, for up to 30 days back, as the workers measured it. */
  async timings (last: Duration, options: timings.TimingsOptions = {}): Promise<timings.Timed[]> { return timings.timings(this.#on, last, options) }

  /** Why attempts failed, by cause, the most frequent first. */
  async failures (last: Duration, filter: Omit<timings.TimingsOptions, 'step'> = {}): Promise<timings.Failure[]> { return timings.failures(this.#on, last, filter) }

  /** Marks this moment, as a deploy does: the dashboard draws it into its charts. */
  async mark (label: string, actor: string): Promise<void> { await timings.mark(this.#on, label, actor) }

  /** The marks of that time, the newest first. */
  async marks (last: Duration): Promise<timings.Mark[]> { return timings.marks(this.#on, last) }

  /** The store's policy. */
  async settings (): Promise<policy.Settings> { return policy.settings(this.#on) }

  /** A page of the audit log: who changed what. */
  async audit (filter: AuditFilter = {}): Promise<AuditPage> { return audit(this.#on, filter) }

  /** Notes in the audit log what this program did for somebody, after it was done: calls are not in it by themselves but those of a Windlass that {@link actingAs acts for somebody}. */
  async appendAudit (entries: readonly AuditEntry[]): Promise<void> { await appendAudit(this.#on, entries) }

  /** Changes the store's policy, for all workers on it; what is left out stays. */
  async configure (change: policy.SettingsChange): Promise<void> { await policy.configure(this.#on, change) }

  /** What is kept of single queues and outcomes, beside the settings, which hold for all. */
  async retention (): Promise<policy.RetentionRecord[]> { return policy.retention(this.#on) }

  /** Keeps these rules, all or none, each in the place of that of its queue and outcome; one that says nothing removes that. */
  async setRetention (rules: readonly policy.RetentionRule[]): Promise<void> { await policy.setRetention(this.#on, rules) }

  /** The state of the store. */
  async status (): Promise<StoreStatus> { return record(await this.#on.call('status')) }

  /** Makes a worker, which begins to work by `run` or `start`. */
  worker (options: WorkerOptions): Worker { return new Worker(this.#on, options) }

  /** Closes its connections: those of its workers when these have ended. Calls that are under way may fail: await them before. */
  async close (): Promise<void> { await this.#on.close() }

  /** The same, for `await using`. */
  async [Symbol.asyncDispose] (): Promise<void> { await this.close() }
}

export type { JobState }
