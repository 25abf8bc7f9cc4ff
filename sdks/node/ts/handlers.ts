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

/** @internal A module with the handler of a kind. */
export interface ThreadModule { readonly kind: string, readonly url: string, readonly encrypted: boolean }

/** @internal The handlers of a worker, by kind. */
export class Handlers {
  readonly #byKind = new Map<string, Registered>()

  /** Modules whose handlers run in threads. */
  readonly modules: ThreadModule[] = []
  /** How many threads there are for all of them. */
  threads = 0

  get kinds (): string[] { return [...this.#byKind.keys()] }
  /** Those of all kinds whose definition says that their jobs are. */
  get encrypted (): string[] {
    const here = [...this.#byKind.values()].filter(({ job }) => job.options.encrypted).map(({ job }) => job.kind)
    return [...here, ...this.modules.filter(({ encrypted }) => encrypted).map(({ kind }) => kind)]
  }

  get largestBatch (): number { return Math.max(0, ...[...this.#byKind.values()].map(({ many }) => many?.maxSize ?? 0)) }

  /** Batches that can never be as large as they may be, each with why. */
  tooLarge (queues: Readonly<Record<string, number>>): string[] {
    return [...this.#byKind.values()].flatMap(({ job: { kind, options: { queue = 'default' } }, many }) => {
      const places = queues[queue]
      if (!many || places === undefined || places >= many.maxSize) return []
      return [`a batch of "${kind}" may have ${many.maxSize} jobs, but no more than ${places} of the queue "${queue}" run at once: ` +
        `give the queue ${many.maxSize}, or the batch { maxSize: ${places} }`]
    })
  }

  add (registered: Registered, call: unknown): void {
    const { job } = registered
    const refuse = (what: string): never => { throw new InvalidOption('invalid_option', what) }
    if (typeof job?.kind !== 'string') refuse(`handle takes a job made by defineJob first, got ${typeof job}`)
    const of = `the handler of "${job.kind}"`
    if (typeof call !== 'function') refuse(`${of} must be a function, got ${call === null ? 'null' : typeof call}`)
    if (/^(Async)?GeneratorFunction$/.test((call as Function).constructor.name)) {
      refuse(`${of} is a generator function, whose body would never run: make it an async function`)
    }
    if (this.#byKind.has(job.kind) || this.modules.some(({ kind }) => kind === job.kind)) refuse(`two handlers for "${job.kind}": a worker has one handler for each kind`)
    const size = registered.many?.maxSize
    if (size !== undefined && !(Number.isInteger(size) && size >= 1 && size <= 10_000)) refuse(`maxSize of ${of} must be 1 to 10000, got ${size}`)
    this.#byKind.set(job.kind, registered)
  }

  addModule (job: JobDefinition, module: URL | string, threads: number): void {
    const refuse = (what: string): never => { throw new InvalidOption('invalid_option', what) }
    if (!(Number.isInteger(threads) && threads >= 1 && threads <= 1_000)) refuse(`threads of the handler of "${job.kind}" must be 1 to 1000, got ${threads}`)
    if (!URL.canParse(String(module))) refuse(`the module of "${job.kind}" must be a URL, such as new URL('./resize.js', import.meta.url), got ${JSON.stringify(module)}`)
    this.add({ job }, () => {})
    this.#byKind.delete(job.kind)
    this.modules.push({ kind: job.kind, url: String(module), encrypted: job.options.encrypted === true })
    this.threads += threads
  }

  get (kind: string): Registered | undefined { return this.#byKind.get(kind) }
}

