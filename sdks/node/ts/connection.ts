import { Calls } from './calls.js'
import { callUntil, until } from './ending.js'
import { InvalidOption } from './errors.js'
import { encode } from './json.js'
import type { Middleware } from './middleware.js'
import { addon, answer } from './native.js'
import { checkTraces, type Traces } from './tracing.js'

/** How a store is reached, besides its URL. */
export interface WindlassOptions {
  /**
   * The keys of encrypted jobs: `ID:BASE64` of 32 bytes each, with commas between, the current one first (it seals; all of them open). From where you keep
   * passwords: `process.env.WINDLASS_KEYS`.
   */
  keys?: string | undefined
  /** Traces of its jobs: `openTelemetry()` of `windlass/otel`. */
  traces?: Traces | undefined
}

/** A store, opened when it is first needed. Its URL, which may hold a password, and its keys are in no property. */
export class Connection {
  readonly #url: string
  readonly #keys: string | undefined
  readonly traces: Traces | undefined
  /** What runs around the handlers of its workers. */
  middleware: Middleware[] = []
  #client: Promise<Calls> | undefined
  #closed = false
  /** A store of a test, in which time can be moved. */
  isTest = false

  constructor (url: string, { keys, traces, ...unknown }: WindlassOptions = {}) {
    if (typeof url !== 'string' || url === '') {
      throw new InvalidOption('invalid_option', "name a store, such as 'postgres://me@localhost/app' or 'sqlite:jobs.db'")
    }
    const [odd] = Object.keys(unknown)
    if (odd !== undefined) throw new InvalidOption('invalid_option', `"${odd}" is no option of Windlass; options are keys, traces`)
    if (traces !== undefined) checkTraces(traces)
    if (keys !== undefined && typeof keys !== 'string') throw new InvalidOption('invalid_option', `keys must be a text such as 'ID:BASE64', got ${typeof keys}`)
    this.#url = url
    this.#keys = keys
    this.traces = traces
  }

  /** The native client; asked again after a failure, it tries again. */
  client (): Promise<Calls> {
    if (this.#closed) return Promise.reject(new InvalidOption('invalid_option', 'this Windlass is closed: make another one'))
    return this.#client ??= Calls.open(bell => answer(() => addon().open(this.#url, this.#keys, this.isTest, bell))).catch(error => {
      this.#client = undefined
      throw error
    })
  }

  /** Does one operation of the core: JSON text in, JSON text out. A signal ends it. */
  async text (op: string, payload: string, signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted()
    if (!signal) {
      const client = await this.client()
      return answer(() => client.call(op, payload))
    }
    const client = await until(signal, this.client())
    return callUntil(signal, client, op, payload)
  }

  /** The same with values. */
  async call (op: string, payload: object = {}, signal?: AbortSignal): Promise<unknown> {
    return JSON.parse(await this.text(op, encode(payload, 'what is asked for', InvalidOption), signal))
  }

  /** The schema of a PostgreSQL store, and nothing for SQLite. */
  schema (): string | undefined {
    if (!/^postgres(ql)?:/.test(this.#url)) return undefined
    return decodeURIComponent(/[?&]schema=([^&]*)/.exec(this.#url)?.[1] ?? 'windlass')
  }

  async close (): Promise<void> {
    this.#closed = true
    const client = await this.#client?.catch(() => undefined)
    if (client) await answer(() => client.close())
  }
}

/** Another connection, whose calls are made for somebody. */
export class Acting extends Connection {
  readonly #of: Connection
  readonly #actor: string

  constructor (of: Connection, actor: string) {
    if (typeof actor !== 'string' || actor.trim() === '') throw new InvalidOption('invalid_option', `who acts must be named, as in actingAs('billing'), got ${JSON.stringify(actor)}`)
    super('of another', of.traces === undefined ? {} : { traces: of.traces })
    this.#of = of
    this.#actor = actor
    this.middleware = of.middleware
  }

  override client (): Promise<Calls> { return this.#of.client() }

  override text (op: string, payload: string, signal?: AbortSignal): Promise<string> {
    return this.#of.text('acting_as', `{"actor":${JSON.stringify(this.#actor)},"op":${JSON.stringify(op)},"payload":${payload}}`, signal)
  }

  override schema (): string | undefined { return this.#of.schema() }

  override close (): Promise<void> { return this.#of.close() }
}
