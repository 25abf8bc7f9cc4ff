import { Worker as Thread } from 'node:worker_threads'
import type { ThreadModule } from './handlers.js'
import type { JobInfo } from './job.js'
import type { FromThread } from './thread.js'

/** How long threads may take to end after their worker did, and how long it takes until one that cannot start is tried again: ms. */
const LAST = 1_000
const AGAIN = 1_000

/** The threads of a worker. One that dies is replaced; the job that it ran fails. */
export class Threads {
  readonly #number: number
  readonly #modules: ThreadModule[]
  readonly #onError: (error: unknown, job: JobInfo) => void
  readonly #threads = new Map<Thread, Promise<void>>()
  #over = false

  constructor (number: number, modules: ThreadModule[], onError: (error: unknown, job: JobInfo) => void) {
    this.#number = number
    this.#modules = modules
    this.#onError = onError
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
    const thread = new Thread(new URL('./thread.js', import.meta.url), { workerData: { number: this.#number, modules: this.#modules } })
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
        this.#threads.delete(thread)
        ended()
        if (!works) reject(cause)
        else if (!this.#over) this.#replace(cause)
      })))
    })
  }

  #replace (cause: unknown): void {
    console.error('windlass: a thread of the worker died; another takes its place:', cause)
    this.#spawn().catch(error => setTimeout(() => { if (!this.#over) this.#replace(error) }, AGAIN).unref())
  }
}
