import { basename } from 'node:path'
import type { Connection } from './connection.js'
import type { JobDefinition } from './define.js'
import type { Duration } from './duration.js'
import { signalOf, until, whenAborted, type Endable } from './ending.js'
import { InvalidOption, WindlassError } from './errors.js'
import { Handlers, type BatchHandler, type BatchOptions, type Handler } from './handlers.js'
import type { Job, JobInfo } from './job.js'
import { Loop } from './loop.js'
import { onlyKnown, shown } from './known.js'
import { addon, answer, type NativeWorker } from './native.js'
import { span, wirePolicy, type RetryPolicy } from './options.js'
import { keepAlive, onSignals } from './signals.js'
import { askTakenAway } from './taken_away.js'
import { Threads } from './threads.js'

/** What a worker works, and how. */
export interface WorkerOptions {
  /** Queues, and how many jobs of each run at once: `{ mail: 50, images: 4 }`. */
  queues: Record<string, number>
  /** Its name for people. Default: the host's and the process's. */
  name?: string | undefined
  /** The name of the program, shown where workers are listed. Default: that of its script. */
  program?: string | undefined
  /**
   * The version of the application, as you count: shown where workers are listed, so that people see how far a deploy is. Default: what the
   * environment variable `WINDLASS_APP_VERSION` says.
   */
  appVersion?: string | undefined
  /** How long an attempt may take, of jobs that do not say. */
  timeout?: Duration | undefined
  /** When failed attempts are tried again, of jobs that do not say. */
  retryPolicy?: RetryPolicy | undefined
  /** How long the worker may be silent before others take its jobs. Default 30 s. */
  lease?: Duration | undefined
  /** How long a shutdown lets running jobs go on. */
  gracePeriod?: Duration | undefined
  /**
   * `pipelined` (default): the next job begins while what became of the last is written; after a crash the jobs of some milliseconds run again.
   * `strict`: it begins when that is committed; after a crash no more than run at once.
   */
  settling?: 'pipelined' | 'strict' | undefined
  /** Takes plain args of encrypted kinds, too: those from before they were. Meanwhile whoever can write to the store can make up jobs of these. */
  acceptPlainArgs?: boolean | undefined
  /** Told what handlers threw. Default: to `console.error`. */
  onError?: ((error: unknown, job: JobInfo) => void) | undefined
}

const KNOWN = ['queues', 'name', 'program', 'appVersion', 'timeout', 'retryPolicy', 'lease', 'gracePeriod', 'settling', 'acceptPlainArgs', 'onError']

/** What a worker did since it started, and what it holds now. */
export interface WorkerStats {
  claimed: number, completed: number, retried: number, snoozed: number, cancelled: number, discarded: number
  /** Jobs that it has no handler for: they wait for a worker that has one. */
  noHandler: number
  /** Jobs handed back unstarted or interrupted. */
  returned: number
  /** Jobs whose settlement the store has confirmed. */
  settled: number
  running: number, ready: number, unsettled: number
  /** Outcomes that came too late, for jobs that were taken away. */
  refused: number
}

/**
 * Works jobs in this event loop. Made by `windlass.worker`.
 *
 * ```ts
 * await windlass.worker({ queues: { mail: 50 } })
 *   .handle(sendMail, async ({ to }, job) => { await fetch(url(to), { signal: job.signal }) })
 *   .run()
 * ```
 */
export class Worker {
  readonly #on: Connection
  readonly #options: WorkerOptions
  readonly #handlers = new Handlers()
  #starting: Promise<void> | undefined
  #native: NativeWorker | undefined
  #loop: Loop | undefined
  #threads: Threads | undefined
  #stopping = false
  #waits = true

  /** @internal */
  constructor (on: Connection, options: WorkerOptions) {
    if (!areQueues(options?.queues)) {
      throw new InvalidOption('invalid_option', 'name the queues to work, and how many jobs of each run at once: worker({ queues: { default: 10 } })')
    }
    const refuse = (what: string): never => { throw new InvalidOption('invalid_option', what) }
    onlyKnown(options, KNOWN, 'a worker')
    if (!['pipelined', 'strict', undefined].includes(options.settling)) refuse(`settling must be 'pipelined' or 'strict', got ${JSON.stringify(options.settling)}`)
    if (options.onError !== undefined && typeof options.onError !== 'function') refuse(`onError must be a function, got ${shown(options.onError)}`)
    this.#on = on
    this.#options = options
  }

  /** Works jobs of a kind, one by one. */
  handle<J extends JobDefinition> (job: J, handler: Handler<J>): this {
    this.#unstarted()
    this.#handlers.add({ job, one: handler }, handler)
    return this
  }

  /** Works jobs of all kinds that have no handler of their own. */
  handleAny (handler: (args: unknown, job: Job) => unknown): this {
    this.#unstarted()
    this.#handlers.addAny(handler)
    return this
  }

  /**
   * Works jobs of a kind together. A batch begins when it is full, or when its first job has waited for `wait`; without that it is what the worker has at
   * hand. However many jobs it has, it takes one place of the queue.
   */
  handleBatch<J extends JobDefinition> (job: J, options: BatchOptions, handler: BatchHandler<J>): this {
    this.#unstarted()
    onlyKnown(options, ['maxSize', 'wait'], 'handleBatch')
    const { maxSize, wait } = options
    this.#handlers.add({ job, many: { maxSize, wait, call: handler } }, handler)
    return this
  }

  /**
   * Works jobs of a kind in threads of Node, for work that takes the processor: each thread runs one job at a time. The module's default
   * export is what {@link inThread} makes. Threads are of all kinds of this worker that have any, `threads` is added up.
   *
   * ```ts
   * worker.handleInThreads(resize, new URL('./resize.js', import.meta.url), { threads: 4 })
   * ```
   */
  handleInThreads (job: JobDefinition, module: URL | string, options: { threads: number }): this {
    this.#unstarted()
    onlyKnown(options, ['threads'], 'handleInThreads')
    this.#handlers.addModule(job, module, options.threads)
    return this
  }

  /** @internal What is there is all that comes: no batch waits for more. */
  withoutWaits (): this {
    this.#waits = false
    return this
  }

  /** Begins to work, and resolves when the store knows this worker. */
  async start (): Promise<this> {
    if (this.#handlers.isEmpty) throw new InvalidOption('invalid_option', 'the worker handles nothing: call handle() before it starts')
    this.#unstarted()
    this.#starting = this.#start()
    try {
      await this.#starting
    } catch (error) {
      this.#starting = undefined
      throw error
    }
    return this
  }

  async #start (): Promise<void> {
    const { onError: told = report } = this.#options
    const broken = (why: unknown) => console.error('windlass: onError threw', why)
    const onError = (error: unknown, job: JobInfo) => {
      try {
        void Promise.resolve(told(error, job) as unknown).catch(broken) // it may be async
      } catch (why) {
        broken(why)
      }
    }
    const spec = this.#spec()
    const loop = this.#loop = new Loop(this.#handlers.surrounded(this.#on.middleware, this.#on.traces), onError)
    const client = await this.#on.client()
    this.#native = await answer(() => addon().startWorker(client.native, spec, loop.schedule))
    loop.begin(this.#native)
    if (this.#stopping) this.#native.stop()
    try {
      await (this.#threads = new Threads(this.#native.number, this.#handlers.modules, onError, askTakenAway(this.#on))).start(this.#handlers.threads)
    } catch (error) {
      this.#native.stop()
      await loop.ended
      this.#native = undefined
      throw error
    }
  }

  #spec (): string {
    const { queues, name, program, appVersion, timeout, retryPolicy, lease, gracePeriod, settling, acceptPlainArgs } = this.#options
    const { kinds, encrypted, modules, rules } = this.#handlers
    return JSON.stringify({
      queues: Object.entries(queues), kinds, batches: this.#handlers.batches(this.#waits), any: this.#handlers.takesAny ? 'desk' : undefined, encrypted_kinds: encrypted, rules, blocking_kinds: modules.map(({ kind }) => kind), name, timeout_ms: span(timeout, 'timeout'),
      retry_policy: retryPolicy && wirePolicy(retryPolicy), lease_ms: span(lease, 'lease'), grace_period_ms: span(gracePeriod, 'gracePeriod'),
      program: program ?? (basename(process.argv[1] ?? '').slice(0, 50) || undefined), app_version: appVersion, language: 'TypeScript',
      strict: settling === 'strict', accept_plain_args: acceptPlainArgs,
    })
  }

  /**
   * Works until SIGINT or SIGTERM, then shuts down gracefully: running jobs get the grace period; a second signal hands them back at once.
   * Only this installs listeners of signals, while it runs. An `AbortSignal` begins a graceful shutdown as the first of those does.
   */
  async run (options?: Endable): Promise<void> {
    const signal = signalOf(options, 'run')
    let signals = 0
    let told = () => {}
    const isTold = new Promise<void>(resolve => { told = resolve })
    const heed = () => signals === 0 ? undefined : signals === 1 ? this.stop() : this.abort()
    const came = (count: number) => { signals = Math.max(signals, count); heed(); told() }
    const undo = [onSignals(came), keepAlive(), whenAborted(signal, () => came(1))]
    try {
      if (!this.#starting) {
        if (signals > 0) return
        const starting = this.start()
        await Promise.race([starting, isTold])
        // Nothing runs yet, and the store may be long in answering: what comes of it is stopped when it comes.
        if (signals > 0 && !this.#native) return void starting.catch(() => {})
      }
      heed()
      await this.#ended()
    } finally {
      for (const each of undo) each()
    }
  }

  /** Begins a graceful shutdown; `ended` resolves at its end. */
  stop (): void {
    this.#stopping = true
    this.#native?.stop()
  }

  /** Hands running jobs back now; `ended` resolves soon. */
  abort (): void {
    this.#stopping = true
    this.#native?.abortNow()
  }

  /** Resolves when a worker that was stopped, or drained from afar, ended; rejects when one ended by itself. `signal` ends the wait, not the worker. */
  async ended (options?: Endable): Promise<void> { await until(signalOf(options, 'ended'), this.#ended()) }

  async #ended (): Promise<void> {
    await this.#starting
    await this.#loop?.ended
    await this.#threads?.end()
    if (this.#loop && !this.#stopping && !this.#native?.isDraining()) throw new WindlassError('internal', 'the worker ended by itself, which is a defect: please report it')
  }

  /** Shuts down gracefully, and resolves when the worker is gone. When `signal` aborts, what still runs is handed back at once. */
  async close (options?: Endable): Promise<void> {
    const signal = signalOf(options, 'close')
    await this.#starting
    if (!this.#native) return
    this.stop()
    const off = whenAborted(signal, () => this.abort())
    await this.#ended().finally(off)
  }

  /** The same, for `await using`. */
  async [Symbol.asyncDispose] (): Promise<void> { await this.close() }

  /** Waits until nothing is available to it and nothing runs. For tests. `signal` ends the wait. */
  async untilIdle (options?: Endable): Promise<void> {
    const signal = signalOf(options, 'untilIdle')
    await until(signal, Promise.resolve(this.#starting).then(() => answer(() => this.#started().untilIdle())))
  }

  /** What it did and holds. */
  stats (): WorkerStats { return JSON.parse(this.#started().stats()) }

  #started (): NativeWorker {
    if (this.#native) return this.#native
    throw new InvalidOption('invalid_option', 'the worker was not started')
  }

  #unstarted (): void {
    if (this.#starting) throw new InvalidOption('invalid_option', 'the worker was started already')
  }
}

/** Whether they are named, each with a number. */
function areQueues (queues: unknown): boolean {
  if (typeof queues !== 'object' || queues === null || Array.isArray(queues)) return false
  const numbers = Object.values(queues)
  return numbers.length > 0 && numbers.every(Number.isInteger)
}

function report (error: unknown, { id, kind, attempt }: JobInfo): void {
  console.error(`windlass: job ${id} (${kind}) failed at attempt ${attempt}:`, error)
}
