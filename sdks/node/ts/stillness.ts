import type { Job } from './job.js'

/** How often one looks, and for how long a loop may stand still before that is said. */
const EVERY = 1_000
export const PATIENCE = 5_000
/** How many jobs are named. */
const NAMED = 5

/** Says that the event loop stood still while it had jobs: nothing else of the process went on meanwhile. Keeps no process alive. */
export class Stillness {
  readonly #timer: NodeJS.Timeout
  #last = performance.now()

  /** `suspects`: the jobs that may have held it. */
  constructor (suspects: () => Job[], patience = PATIENCE) {
    const every = Math.min(EVERY, patience)
    this.#timer = setInterval(() => {
      const now = performance.now()
      const still = now - this.#last - every
      this.#last = now
      if (still >= patience) say(still, suspects())
    }, every).unref()
  }

  end (): void { clearInterval(this.#timer) }
}

function say (still: number, jobs: Job[]): void {
  if (jobs.length === 0) return // somebody else's affair
  const names = jobs.slice(0, NAMED).map(({ id, kind }) => `job ${id} (${kind})`)
  const more = jobs.length > NAMED ? ` or one of ${jobs.length - NAMED} others` : ''
  console.warn(`windlass: the event loop stood still for ${(still / 1_000).toFixed(1)} s, and nothing else went on meanwhile: ${names.join(', ')}${more} held it. ` +
    'No job is lost by it, since leases are renewed beside the loop. What computes for long belongs into worker.handleInThreads')
}
