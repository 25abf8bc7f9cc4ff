/** What the memory holds: how often the thread asked the engine for jobs, and its job, which has an id, an attempt, and a kind by its place among all. */
const [BEATS, ID, ATTEMPT, KIND] = [0, 1, 2, 3]
const CELLS = 4
/** In the place of beats: below zero however often the thread asks. */
const GIVEN_UP = -(2n ** 62n)

/** A job that a thread runs. */
export interface Ran { readonly id: number, readonly attempt: number, readonly kind: string }

/** What a thread says of itself where others can read it while it computes: in memory that they share. */
export class Pulse {
  readonly #kinds: readonly string[]
  readonly #cells: BigInt64Array

  constructor (kinds: readonly string[], readonly memory = new SharedArrayBuffer(CELLS * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.#kinds = kinds
    this.#cells = new BigInt64Array(memory)
  }

  /** The thread asks for jobs. Once it was given up it must not, and hears so: what it took would be lost with it. */
  beat (): boolean { return Atomics.add(this.#cells, BEATS, 1n) >= 0n }

  /** What it runs from now on. */
  runs (job: Ran | undefined): void {
    Atomics.store(this.#cells, ID, BigInt(job?.id ?? 0))
    Atomics.store(this.#cells, ATTEMPT, BigInt(job?.attempt ?? 0))
    Atomics.store(this.#cells, KIND, BigInt(this.#kinds.indexOf(job?.kind ?? '')))
  }

  /** How often it asked for jobs. */
  get beats (): bigint { return Atomics.load(this.#cells, BEATS) }

  /** What it runs, if it runs anything. */
  get job (): Ran | undefined {
    const [id, attempt, kind] = [ID, ATTEMPT, KIND].map(cell => Number(Atomics.load(this.#cells, cell)))
    return id === 0 ? undefined : { id: id!, attempt: attempt!, kind: this.#kinds[kind!] ?? 'unknown' }
  }

  /** Gives the thread up, if it asked for nothing since it had asked so often. */
  giveUp (beats: bigint): boolean { return Atomics.compareExchange(this.#cells, BEATS, beats, GIVEN_UP) === beats }
}
