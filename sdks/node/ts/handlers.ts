import type { ArgsOf, JobDefinition } from './define.js'
import { InvalidOption } from './errors.js'
import type { Job } from './job.js'

/** Works one job. What it returns is the job's result, or an outcome; what it throws fails the attempt. */
export type Handler<J extends JobDefinition> = (args: ArgsOf<J>, job: Job<ArgsOf<J>>) => unknown

/** Works jobs together. It returns nothing when all are done, or for each an outcome, a result or undefined. */
export type BatchHandler<J extends JobDefinition> = (jobs: Array<Job<ArgsOf<J>>>) => unknown

/** @internal A handler with what it handles. */
export interface Registered {
  readonly job: JobDefinition
  readonly one?: (args: any, job: Job<any>) => unknown
  readonly many?: { readonly maxSize: number, readonly call: (jobs: Array<Job<any>>) => unknown }
}

/** @internal The handlers of a worker, by kind. */
export class Handlers {
  readonly #byKind = new Map<string, Registered>()

  get kinds (): string[] { return [...this.#byKind.keys()] }
  get largestBatch (): number { return Math.max(0, ...[...this.#byKind.values()].map(({ many }) => many?.maxSize ?? 0)) }

  add (registered: Registered, call: unknown): void {
    const { job } = registered
    const refuse = (what: string): never => { throw new InvalidOption('invalid_option', what) }
    if (typeof job?.kind !== 'string') refuse(`handle takes a job made by defineJob first, got ${typeof job}`)
    const of = `the handler of "${job.kind}"`
    if (typeof call !== 'function') refuse(`${of} must be a function, got ${call === null ? 'null' : typeof call}`)
    if (/^(Async)?GeneratorFunction$/.test((call as Function).constructor.name)) {
      refuse(`${of} is a generator function, whose body would never run: make it an async function`)
    }
    if (this.#byKind.has(job.kind)) refuse(`two handlers for "${job.kind}": a worker has one handler for each kind`)
    const size = registered.many?.maxSize
    if (size !== undefined && !(Number.isInteger(size) && size >= 1 && size <= 10_000)) refuse(`maxSize of ${of} must be 1 to 10000, got ${size}`)
    this.#byKind.set(job.kind, registered)
  }

  get (kind: string): Registered | undefined { return this.#byKind.get(kind) }
}

