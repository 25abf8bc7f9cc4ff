import type { ArgsOf, JobDefinition } from './define.js'
import { InvalidOption } from './errors.js'
import type { Job } from './job.js'
import type { Duration } from './duration.js'
import { around, aroundMany, type Middleware } from './middleware.js'
import { rulesOf, span, type KindRules } from './options.js'
import type { Traces } from './tracing.js'

type Call = (args: any, job: Job<any>) => unknown

const LONGEST_WAIT = 600_000

/** Works one job. What it returns is the job's result, or an outcome; what it throws fails the attempt. */
export type Handler<J extends JobDefinition> = (args: ArgsOf<J>, job: Job<ArgsOf<J>>) => unknown

/** Works jobs together. It returns nothing when all are done, or for each an outcome, a result or undefined. */
export type BatchHandler<J extends JobDefinition> = (jobs: Array<Job<ArgsOf<J>>>) => unknown

/** How many jobs a handler works together. */
export interface BatchOptions {
  /** So many at most: 1 to 10,000. */
  maxSize: number
  /** How long the first waits for others, from when the worker took it: at most 10 minutes. Default: not at all, a batch is what the worker has at hand. */
  wait?: Duration | undefined
}

/** @internal A handler with what it handles. */
export interface Registered {
  readonly job: JobDefinition
  readonly one?: (args: any, job: Job<any>) => unknown
  readonly many?: BatchOptions & { readonly call: (jobs: Array<Job<any>>) => unknown }
}

/** @internal A module with the handler of a kind. */
export interface ThreadModule { readonly kind: string, readonly url: string, readonly encrypted: boolean, readonly rules: KindRules | undefined }

/** @internal The handlers of a worker, by kind. */
export class Handlers {
  readonly #byKind = new Map<string, Registered>()
  #any: Registered | undefined

  /** Modules whose handlers run in threads. */
  readonly modules: ThreadModule[] = []
  /** How many threads there are for all of them. */
  threads = 0

  get isEmpty (): boolean { return this.#byKind.size + this.modules.length === 0 && !this.#any }
  /** Those whose jobs are worked one by one. */
  get kinds (): string[] { return [...this.#byKind.values()].filter(({ many }) => !many).map(({ job }) => job.kind) }
  /** The others, as the core reads them. */
  batches (waits: boolean): Array<{ kind: string, max_size: number, wait_ms: number | undefined }> {
    return [...this.#byKind.values()].flatMap(({ job: { kind }, many }) => many
      ? [{ kind, max_size: many.maxSize, wait_ms: waits ? span(many.wait, 'wait') : undefined }]
      : [])
  }

  /** What definitions say of all jobs of their kinds, by kind. */
  get rules (): Record<string, KindRules> {
    const here = [...this.#byKind.values()].map(({ job: { kind, options } }) => ({ kind, rules: rulesOf(options) }))
    return Object.fromEntries([...here, ...this.modules].flatMap(({ kind, rules }) => rules ? [[kind, rules] as const] : []))
  }

  /** Those of all kinds whose definition says that their jobs are. */
  get encrypted (): string[] {
    const here = [...this.#byKind.values()].filter(({ job }) => job.options.encrypted).map(({ job }) => job.kind)
    return [...here, ...this.modules.filter(({ encrypted }) => encrypted).map(({ kind }) => kind)]
  }

  /** The same with middleware around all of them, and around that the traces of attempts, of which batches have none. */
  surrounded (middleware: readonly Middleware[], traces: Traces | undefined): Handlers {
    const trace = (call: Call): Call => traces ? (args, job) => traces.process(job as Job, () => call(args, job)) : call
    const surrounded = ({ job, one, many }: Registered): Registered => ({
      job, ...one && { one: trace(around(middleware, one)) }, ...many && { many: { ...many, call: aroundMany(middleware, many.call) } },
    })
    const all = new Handlers()
    for (const [kind, registered] of this.#byKind) all.#byKind.set(kind, surrounded(registered))
    all.#any = this.#any && surrounded(this.#any)
    return all
  }

  /** The handler of all kinds that have none. */
  addAny (call: unknown): void {
    if (this.#any) throw new InvalidOption('invalid_option', 'two handlers for any kind: a worker has one')
    const rest = new Handlers()
    rest.add({ job: { kind: 'any', options: {} }, one: call as Call }, call) // refuses what is no handler
    this.#any = rest.get('any')
  }

  get takesAny (): boolean { return this.#any !== undefined }

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
    const wait = span(registered.many?.wait, `wait of ${of}`) ?? 0
    if (wait > LONGEST_WAIT) refuse(`wait of ${of} must be at most 10 minutes, since others could work the jobs meanwhile; got ${JSON.stringify(registered.many!.wait)}`)
    if (registered.many && !(Number.isInteger(size) && size! >= 1 && size! <= 10_000)) refuse(`maxSize of ${of} must be 1 to 10000, got ${size}`)
    this.#byKind.set(job.kind, registered)
  }

  addModule (job: JobDefinition, module: URL | string, threads: number): void {
    const refuse = (what: string): never => { throw new InvalidOption('invalid_option', what) }
    if (!(Number.isInteger(threads) && threads >= 1 && threads <= 1_000)) refuse(`threads of the handler of "${job.kind}" must be 1 to 1000, got ${threads}`)
    if (!URL.canParse(String(module))) refuse(`the module of "${job.kind}" must be a URL, such as new URL('./resize.js', import.meta.url), got ${JSON.stringify(module)}`)
    this.add({ job }, () => {})
    this.#byKind.delete(job.kind)
    this.modules.push({ kind: job.kind, url: String(module), encrypted: job.options.encrypted === true, rules: rulesOf(job.options) })
    this.threads += threads
  }

  get (kind: string): Registered | undefined { return this.#byKind.get(kind) ?? this.#any }
}

