import { setTimeout } from 'node:timers/promises'
import type { Connection } from './connection.js'
import { signalOf } from './ending.js'
import { record } from './records.js'

/** What happened to a job: docs/guide/events.md says when each comes. */
export type EventType =
  | 'enqueued' | 'started' | 'completed' | 'failed' | 'retried' | 'snoozed' | 'cancelled' | 'discarded' | 'rescued' | 'returned' | 'deleted'

/** Something that happened to a job. */
export interface JobEvent {
  /** Keep it together with what you do with the event: `after` this one goes on behind it. */
  cursor: string
  event: EventType
  /** The job's. */
  id: number
  at: Date
  queue: string
  kind: string
  attempt: number
  /** Which worker, where known. */
  worker: number | null
  /** The error of a failed attempt, or why it ended. */
  reason: string | null
}

/** Which events, and from where on. */
export interface EventsOptions {
  /** A cursor that was kept, `'start'` (default: everything that is still there), or `'now'`. */
  after?: string | undefined
  queues?: readonly string[] | undefined
  kinds?: readonly string[] | undefined
  events?: readonly EventType[] | undefined
  /** How many are asked for at a time. Default 1000. */
  limit?: number | undefined
  /** Ends the iteration. */
  signal?: AbortSignal | undefined
}

/** A page of events. It may be empty though `more` follows, where the filters left all of it out. */
export interface EventPage { events: JobEvent[], next: string, more: boolean }

/** The first and the longest pause between two looks while nothing happens: ms. */
const PAUSE = [20, 1_000] as const

/**
 * What happened to jobs, in the order in which it was committed: made by `windlass.events`. Iterated, it waits for what comes; it ends by
 * `break` or by its `signal`.
 *
 * ```ts
 * for await (const { cursor, event, id } of windlass.events({ after: kept, queues: ['mail'] })) { ... }
 * ```
 */
export class Events implements AsyncIterable<JobEvent> {
  readonly #on: Connection
  readonly #filter: Omit<EventsOptions, 'after' | 'signal'>
  readonly #signal: AbortSignal | undefined
  #cursor: string | undefined

  /** @internal */
  constructor (on: Connection, { after, signal, ...filter }: EventsOptions) {
    this.#on = on
    this.#filter = filter
    this.#signal = signalOf({ signal }, 'events')
    this.#cursor = after
  }

  /** Where it goes on: behind what it gave so far. Undefined until the first page, if no `after` was said. */
  get position (): string | undefined { return this.#cursor }

  /** The next page, at once: empty where nothing happened. Rejects with the reason of a signal that ends it. */
  async page (): Promise<EventPage> {
    const page = await this.#read()
    this.#cursor = page.next
    return page
  }

  /** Event by event. Another iteration goes on behind the last one that this gave. */
  async * [Symbol.asyncIterator] (): AsyncGenerator<JobEvent, void, undefined> {
    for (let pause: number = PAUSE[0]; !this.#signal?.aborted;) {
      const page = await this.#read().catch(error => { if (!this.#signal?.aborted) throw error })
      if (!page) return // aborted while the store was asked
      const { events, next, more } = page
      for (const event of events) {
        if (this.#signal?.aborted) return
        this.#cursor = event.cursor
        yield event
      }
      this.#cursor = next
      if (events.length > 0) {
        pause = PAUSE[0]
      } else if (!more) {
        await setTimeout(pause, undefined, { signal: this.#signal }).catch(() => {}) // aborted: the loop ends
        pause = Math.min(2 * pause, PAUSE[1])
      }
    }
  }

  async #read (): Promise<EventPage> {
    return record(await this.#on.call('events', { from: this.#cursor, ...this.#filter }, this.#signal))
  }
}
