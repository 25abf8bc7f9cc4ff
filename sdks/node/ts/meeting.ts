import { eachOf } from './each_of.js'
import type { Job } from './job.js'

/** How long jobs wait for those that a middleware holds up, which may wait for the first to be done. They run without them then. */
const HELD_UP = 1_000

interface Joined { readonly job: Job<any>, readonly resolve: (value: unknown) => void, readonly reject: (error: unknown) => void }

/** Where the jobs of a batch meet, each behind its middleware. */
export class Meeting {
  #expected: number
  #joined: Joined[] = []
  #heldUp: NodeJS.Timeout | undefined
  readonly #call: (jobs: Array<Job<any>>) => unknown

  constructor (expected: number, call: (jobs: Array<Job<any>>) => unknown) {
    this.#expected = expected
    this.#call = call
  }

  /** One of them: it joins or leaves, and is expected no more. */
  member () {
    let expected = true
    const arrive = (): void => {
      if (expected) this.#expected--
      expected = false
      this.#look()
    }
    return {
      join: (job: Job<any>): Promise<unknown> => new Promise((resolve, reject) => {
        this.#joined.push({ job, resolve, reject })
        arrive()
      }),
      leave: arrive,
    }
  }

  #look (): void {
    if (this.#joined.length === 0) return
    if (this.#expected === 0) void this.#begin()
    else this.#heldUp ??= setTimeout(() => { void this.#begin() }, HELD_UP)
  }

  async #begin (): Promise<void> {
    clearTimeout(this.#heldUp)
    this.#heldUp = undefined
    const joined = this.#joined
    this.#joined = []
    try {
      const values = eachOf(await this.#call(joined.map(({ job }) => job)), joined.length)
      joined.forEach(({ resolve }, nth) => resolve(values?.[nth]))
    } catch (error) {
      for (const { reject } of joined) reject(error)
    }
  }
}
