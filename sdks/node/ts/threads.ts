import { Worker as Thread } from 'node:worker_threads'
import type { ThreadModule } from './handlers.js'
import type { JobInfo } from './job.js'
import { Pulse, type Ran } from './pulse.js'
import { watch } from './stuck.js'
import type { FromThread } from './thread.js'

/** How long threads may take to end after their worker did, and how long it takes until one that cannot start is tried again: ms. */
const LAST = 1_000
const AGAIN = 1_000

/** The threads of a worker. One that dies is replaced, and the job that it ran fails; so is one that computes on with a job that was taken away. */
export class Threads {
  readonly #number: number
  readonly #modules: ThreadModule[]
  readonly #onError: (error: unknown, job: JobInfo) => void
  readonly #isTakenAway: (job: Ran) => Promise<boolean>
  readonly #threads = new Map<Thread, Promise<void>>()
  #over = false

  constructor (number: number, modules: ThreadModule[], onError: (error: unknown, job: JobInfo) => void, isTakenAway: (job: Ran) => Promise<boolean>) {
    this.#number = number
    this.#modules = modules
    this.#onError = onError
    this.#isTakenAway = isTakenAway
  }

  /** Starts so many, and resolves when all work; rejects when one cannot, and ends the others. */
  async start (count: number): Promise<void> {
    try {
      await Promise.all(Array.from({ length: count }, () => this.#spawn()))
    } catch (error) {
      await this.end()
      throw error
    }
  }

  /** Waits until they have ended, which they do with their worker; those that do not are terminated. */
  async end (): Promise<void> {
    this.#over = true
    const last = setTimeout(() => { for (const thread of this.#threads.keys()) void thread.terminate() }, LAST)
    await Promise.all(this.#threads.values())
    clearTimeout(last)
  }

  #spawn (): Promise<void> {
    const pulse = new Pulse(this.#modules.map(({ kind }) => kind))
    const thread = new Thread(new URL('./thread.js', import.meta.url), { workerData: { number: this.#number, modules: this.#modules, memory: pulse.memory } })
    let givenUp = false
    const unwatch = watch(pulse, this.#isTakenAway, job => {
      givenUp = true
      console.warn(`windlass: job ${job.id} (${job.kind}) is no longer this worker's, for its time was over, or it was cancelled or taken away; its handler computes on and ` +
        'cannot hear of it. Its thread is ended, and another takes its place')
      void thread.terminate()
    })
    return new Promise((resolve, reject) => {
      let works = false
      let cause: unknown = new Error('it ended by itself')
      thread.on('error', error => { cause = error })
      thread.on('message', (told: FromThread) => {
        if (told === 'ready') resolve(void (works = true))
        else if (told === 'over') this.#over = true // it may hear of that before this thread does
        else this.#onError(told.error, told.job)
      })
      this.#threads.set(thread, new Promise(ended => thread.on('exit', () => {
        unwatch()
        this.#threads.delete(thread)
        ended()
        if (!works) reject(cause)
        else if (givenUp) this.#again()
        else if (!this.#over) this.#replace(cause)
      })))
    })
  }

  #replace (cause: unknown): void {
    console.error('windlass: a thread of the worker died; another takes its place:', cause)
    this.#again()
  }

  #again (): void {
    if (this.#over) return
    this.#spawn().catch(error => setTimeout(() => { if (!this.#over) this.#replace(error) }, AGAIN).unref())
  }
}
