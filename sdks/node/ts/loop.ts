import { AsyncResource } from 'node:async_hooks'
import { attempt, attemptMany, type Settle } from './attempt.js'
import { BatchReader } from './batch_reader.js'
import { line, ofError, ofValue, stopped } from './conclusion.js'
import type { Handlers } from './handlers.js'
import type { Job, StopReason } from './job.js'
import { direct, type NativeWorker } from './native.js'
import { Outcome } from './outcome.js'
import type { Pulse } from './pulse.js'
import { PATIENCE, Stillness } from './stillness.js'

/** That of Node, also where a test puts timers of its own in its place later: jobs would never come. */
const { setImmediate } = globalThis

/** How much one exchange brings at most, but for a batch, which is never split: what fits between two turns of the event loop, so that timers and sockets get theirs. */
const JOBS = 256
const BYTES = 256 * 1024

/**
 * The loop of a worker: what is done goes in, the next jobs come out, once for each `setImmediate`. When there is nothing it rests until
 * the bell rings.
 */
export class Loop implements Settle {
  readonly #handlers: Handlers
  readonly #onError: (error: unknown, job: Job) => void
  readonly #atOnce: number
  #native: NativeWorker | undefined
  #reader: BatchReader | undefined
  #done: number[] = []
  #said: string[] = []
  #running = new Map<number, Job>()
  /** Those of the last exchange. */
  #recent: Job[] = []
  #stillness: Stillness | undefined
  readonly #patience: number
  readonly #pulse: Pulse | undefined
  /** The context in which the worker was started, for all handlers. Who schedules a turn may be one of them, in a context of its own. */
  readonly #around = new AsyncResource('windlass.worker', { requireManualDestroy: true })
  #scheduled = false
  #over = false
  /** Resolves when the worker ended, and rejects when this loop broke. */
  readonly ended: Promise<void>
  #end!: () => void
  #break!: (error: unknown) => void

  /** At most `atOnce` jobs run here; how many there are at all is the engine's affair. Where one runs alone it may hold its loop for as long as it likes, and says by a pulse that it does. */
  constructor (handlers: Handlers, onError: (error: unknown, job: Job) => void, atOnce = Infinity, patience = PATIENCE, pulse?: Pulse) {
    this.#pulse = pulse
    this.#patience = patience
    this.#handlers = handlers
    this.#onError = onError
    this.#atOnce = atOnce
    this.ended = new Promise((resolve, reject) => [this.#end, this.#break] = [resolve, reject])
    this.ended.catch(() => {}) // whoever asks is told
  }

  begin (native: NativeWorker): void {
    this.#native = native
    this.#reader = new BatchReader(native)
    if (this.#atOnce > 1) this.#stillness = new Stillness(() => [...new Set([...this.#recent, ...this.#running.values()])], this.#patience)
    this.schedule()
  }

  /** Has the next turn come: the bell calls it, and whatever has something to hand in. */
  readonly schedule = (): void => {
    if (this.#scheduled || !this.#native || this.#over) return
    this.#scheduled = true
    setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    this.#scheduled = false
    if (this.#over) return
    try {
      this.#around.runInAsyncScope(this.#exchange, this, this.#native!)
    } catch (error) {
      this.#leave()
      this.#break(error)
    }
  }

  #exchange (native: NativeWorker): void {
    if (this.#pulse?.beat() === false) return
    const [done, said] = [this.#done, this.#said]
    if (done.length > 0) this.#done = []
    if (said.length > 0) this.#said = []
    const handIn = said.length > 0 ? said.join('\n') : null
    const room = Math.min(JOBS, this.#atOnce - this.#running.size)
    const batch = direct(() => native.exchange(new Float64Array(done), handIn, room, BYTES))
    if (batch === null) return this.#pulse?.runs(this.#first())
    // The exchange had said that there is no room for these places, so no bell rings for them.
    const freed = batch.told !== undefined && this.#tell(JSON.parse(batch.told))
    const jobs = this.#reader!.read(batch)
    this.#pulse?.runs(jobs[0] ?? this.#first())
    this.#run(jobs)
    if (batch.closed) {
      this.#leave()
      this.#end()
    } else if ((jobs.length > 0 || batch.more || freed) && this.#running.size < this.#atOnce) {
      this.schedule()
    }
  }

  #first (): Job | undefined { return this.#running.values().next().value }

  #run (jobs: Job[]): void {
    const batches = new Map<number, Job[]>()
    this.#recent = jobs
    for (const job of jobs) {
      this.#running.set(job.ticket, job)
      const handler = this.#handlers.get(job.kind)!
      if (handler.many) {
        const batch = batches.get(job.batch)
        if (batch) batch.push(job)
        else batches.set(job.batch, [job])
      } else {
        attempt(job, handler, this)
      }
    }
    for (const batch of batches.values()) void attemptMany(batch, this.#handlers.get(batch[0]!.kind)!, this)
  }

  /** Passes on what jobs are to hear. Whether one of them was taken away, which leaves its place to another. */
  #tell (told: Array<[ticket: number, reason: StopReason | null]>): boolean {
    let freed = false
    for (const [ticket, reason] of told) {
      const job = this.#running.get(ticket)
      if (reason === null && this.#running.delete(ticket)) freed = true
      job?.interrupt(reason ?? 'lost')
    }
    return freed
  }

  /** A handler returned. */
  done (job: Job, value: unknown): void {
    const said = ofValue(value)
    if (said === undefined) this.#done.push(job.ticket)
    else this.#said.push(line(job.ticket, said))
    this.#finish(job)
  }

  /** A handler threw. */
  failed (job: Job, error: unknown): void {
    this.#said.push(line(job.ticket, ofError(error)))
    this.#finish(job)
    if (error instanceof Outcome || stopped(error)) return
    this.#onError(error, job)
  }

  #finish (job: Job): void {
    this.#running.delete(job.ticket)
    job.end()
    this.schedule()
  }

  #leave (): void {
    this.#over = true
    this.#stillness?.end()
    for (const job of this.#running.values()) job.interrupt('lost')
    this.#running.clear()
    this.#native!.leave()
  }
}
