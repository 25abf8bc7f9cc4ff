import { brand } from './brand.js'
import { encodeStored } from './json.js'
import { InvalidOption, LeaseLost } from './errors.js'
import { shown } from './known.js'
import { answer, direct, type NativeReports } from './native.js'
import { runInTransaction } from './sql/enqueue_by.js'
import { refusePool, type Executor } from './sql/executor.js'

/** Why a job should stop: somebody cancelled it, its time is over, the worker stops, or the job was taken away. */
export type StopReason = 'cancelled' | 'timeout' | 'shutdown' | 'lost'

/** The reason of an aborted {@link Job.signal}. */
export class JobInterrupted extends Error {
  override readonly name = 'JobInterrupted'
  constructor (readonly reason: StopReason) { super(`the job should stop: ${reason}`) }
}
brand(JobInterrupted, 'interrupted')

/** Which job and which attempt. */
export interface JobInfo { readonly id: number, readonly kind: string, readonly queue: string, readonly attempt: number, readonly maxAttempts: number }

/** What only some jobs have. */
export interface Attributes { key: string | null, meta: Record<string, unknown> | null, tags: string[], expires_at: string | null }

/** @internal What the jobs of one exchange share. */
export interface Source { native: NativeReports, text: string, numbers: Float64Array }

/** @internal How many numbers a job has: those of src/job_numbers.rs. */
export const FIELDS = 11

/** @internal Where the args of a job begin in the text of all: they come as one array, each behind a bracket or a comma. */
export function start (numbers: Float64Array, nth: number): number {
  return nth === 0 ? 1 : numbers[(nth - 1) * FIELDS + 2]! + 1
}

/** @internal Where they end. */
export function end (numbers: Float64Array, nth: number): number { return numbers[nth * FIELDS + 2]! }

/** What a handler knows of its job besides the args, and what it can say of it. */
export class Job<Args = unknown> {
  #source: Source | undefined
  readonly #nth: number
  readonly #enqueued: number
  readonly #attributes: Attributes | undefined
  #abort: AbortController | undefined
  #interrupted: JobInterrupted | undefined

  /** @internal */
  constructor (
    source: Source,
    nth: number,
    /** @internal What its outcome is handed in with. */
    readonly ticket: number,
    readonly id: number,
    readonly kind: string,
    readonly queue: string,
    /** Which attempt this is, from 1. */
    readonly attempt: number,
    readonly maxAttempts: number,
    readonly priority: number,
    enqueued: number,
    /** How many workers died while they held it. */
    readonly crashCount: number,
    /** @internal The same for all jobs of a batch. */
    readonly batch: number,
    /** The args, parsed; with a schema, what that made of them. */
    public args: Args,
    attributes?: Attributes
  ) {
    this.#source = source
    this.#nth = nth
    this.#enqueued = enqueued
    this.#attributes = attributes
  }

  /** When it was enqueued, by the store's clock. */
  get enqueuedAt (): Date { return new Date(this.#enqueued) }
  /** Whom or what it is about. */
  get key (): string | null { return this.#attributes?.key ?? null }
  /** What was said beside its args. */
  get meta (): Record<string, unknown> | null { return this.#attributes?.meta ?? null }
  /** What it can be found by. */
  get tags (): readonly string[] { return this.#attributes?.tags ?? [] }
  /** From when on it would not have been started any more. */
  get expiresAt (): Date | null { return this.#attributes?.expires_at ? new Date(this.#attributes.expires_at) : null }

  /** The args as JSON text, for integers beyond 2^53. Only while the job runs: it is not kept for longer. */
  get argsJson (): string {
    const { text, numbers } = this.#running()
    return text.slice(start(numbers, this.#nth), end(numbers, this.#nth))
  }

  /** Aborted when the job should stop, with a {@link JobInterrupted} as the reason. What is handed in soon after still counts. */
  get signal (): AbortSignal {
    const abort = this.#abort ??= new AbortController()
    if (this.#interrupted && !abort.signal.aborted) abort.abort(this.#interrupted)
    return abort.signal
  }

  /** Says how far the job is: 0 to 100. Costs no call of the store. */
  progress (percent: number, note?: string): void {
    const { native } = this.#running()
    if (typeof percent !== 'number') throw new InvalidOption('invalid_option', `progress takes a number of per cent, got ${shown(percent)}`)
    if (typeof (note ?? '') !== 'string') throw new InvalidOption('invalid_option', `the note of a progress is a text, got ${shown(note)}`)
    direct(() => native.progress(this.ticket, percent, note ?? null))
  }

  /** Adds a line to the job's log, which is kept with it. Costs no call of the store. */
  log (text: string): void {
    const { native } = this.#running()
    if (typeof text !== 'string') throw new InvalidOption('invalid_option', `log takes a text, as in job.log(String(value)), got ${shown(text)}`)
    direct(() => native.log(this.ticket, text))
  }

  /** Keeps a value for the next attempt, in place of the one before. The store has it when this resolves. */
  async checkpoint (value: unknown): Promise<void> {
    const { native } = this.#running()
    const text = encodeStored(value, 'the checkpoint')
    await answer(() => native.checkpoint(this.ticket, text))
  }

  /** What this attempt or one before kept; null when nothing. Asks the store. */
  async lastCheckpoint<T = unknown> (): Promise<T | null> {
    const { native } = this.#running()
    return JSON.parse(await answer(() => native.lastCheckpoint(this.ticket)))
  }

  /**
   * Completes the job in a transaction of your own (PostgreSQL, READ COMMITTED), so that its effects and its completion commit together,
   * exactly once. Call it last, commit, and return. Rejects with {@link LeaseLost} when the job is somebody else's by now: roll back; and with
   * {@link InvalidOption} where no transaction is open.
   */
  async completeIn (executor: Executor): Promise<void> {
    const { native } = this.#running()
    refusePool(executor, 'the job would be completed apart from its effects: pass the connection that your transaction is open on')
    const { text, params } = JSON.parse(direct(() => native.completeSql(this.ticket))) as { text: string, params: Array<{ value: unknown }> }
    // As texts, which every driver can pass.
    await runInTransaction(executor, [text.replace(/\$(\d+)::/g, '$$$1::text::'), params.map(param => String(param.value))])
  }

  /** @internal Has the signal abort. */
  interrupt (reason: StopReason): void {
    this.#interrupted ??= new JobInterrupted(reason)
    if (this.#abort && !this.#abort.signal.aborted) this.#abort.abort(this.#interrupted)
  }

  /** @internal The job is over: lets go of what it shares with others. */
  end (): void { this.#source = undefined }

  #running (): Source {
    if (this.#source) return this.#source
    throw new LeaseLost('lease_lost', `job ${this.id} is over: nothing more can be said of it`)
  }
}
