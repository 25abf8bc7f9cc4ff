import { end, FIELDS, Job, start, type Attributes } from './job.js'
import type { NativeBatch, NativeWorker } from './native.js'

/** The args of a job that are no JSON: it fails by itself. */
export class UnreadableArgs { constructor (readonly error: unknown) {} }

/** Makes jobs of what exchanges bring. */
export class BatchReader {
  readonly #native: NativeWorker
  readonly #names: string[] = []

  constructor (native: NativeWorker) { this.#native = native }

  /** The jobs of a batch. Args that cannot be read are an {@link UnreadableArgs}. */
  read ({ numbers: n, known, names, args: text, attributes }: NativeBatch): Job[] {
    this.#names.length = known
    this.#names.push(...names)
    const count = n.length / FIELDS
    if (count === 0) return []
    const source = { native: this.#native, text, numbers: n }
    const args = parse(text, n, count)
    const rare = attributes === undefined ? undefined : new Map(JSON.parse(attributes) as Array<[number, Attributes]>)
    const jobs: Job[] = new Array(count)
    for (let nth = 0, at = 0; nth < count; nth++, at += FIELDS) {
      jobs[nth] = new Job(source, nth, n[at]!, n[at + 1]!, this.#names[n[at + 3]!]!, this.#names[n[at + 4]!]!,
        n[at + 5]!, n[at + 6]!, n[at + 7]!, n[at + 8]!, n[at + 9]!, n[at + 10]!, args[nth], rare?.get(nth))
    }
    return jobs
  }
}

function parse (text: string, numbers: Float64Array, count: number): unknown[] {
  try {
    const args = JSON.parse(text)
    if (args.length === count) return args
  } catch {}
  // One of them is no JSON; the others should not suffer for it.
  return Array.from({ length: count }, (_, nth) => {
    try {
      return JSON.parse(text.slice(start(numbers, nth), end(numbers, nth)))
    } catch (error) {
      return new UnreadableArgs(error)
    }
  })
}
