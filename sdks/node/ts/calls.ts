import * as timers from 'node:timers'
import type { NativeClient } from './native.js'

/** Those of Node, also where a test replaces them by a clock of its own: a timer that is begun by one and ended by the other would go on. */
const { clearInterval, setInterval } = timers

interface Pending { resolve: (text: string) => void, reject: (error: Error) => void }

/** The calls of one native client: promises that are settled together, as their answers come. */
export class Calls {
  readonly #pending = new Map<number, Pending>()
  #native: NativeClient | undefined
  #last = 0
  #alive: NodeJS.Timeout | undefined

  /** Rings when there are answers. The native part keeps it, and it must not keep the client. */
  readonly bell: () => void

  constructor () {
    const calls = new WeakRef(this)
    this.bell = () => {
      const left = calls.deref()
      if (left) left.#fetch()
    }
  }

  #fetch (): void {
    const answered = this.#native?.answers()
    if (!answered) return
    for (const [nth, number] of answered.numbers.entries()) {
      const text = answered.texts[nth]!
      const pending = this.#pending.get(Math.abs(number))
      this.#pending.delete(Math.abs(number))
      if (number > 0) pending?.resolve(text)
      else pending?.reject(new Error(text))
    }
    if (this.#pending.size === 0) clearInterval(this.#alive)
  }

  /** The client whose calls these are: opened with the bell. */
  of (native: NativeClient): this {
    this.#native = native
    return this
  }

  get native (): NativeClient { return this.#native! }

  /** For a call that may be ended. */
  number (): number { return this.#last = this.#last % (2 ** 31 - 1) + 1 }

  /** Does one operation of the core: JSON text in, JSON text out. With a number it can be ended. */
  call (op: string, payload: string, number?: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const own = number ?? this.number()
      this.native.start(op, payload, own, number !== undefined)
      // The process goes on as long as somebody waits, and so does this.
      if (this.#pending.size === 0) this.#alive = setInterval(() => this, 2 ** 31 - 1)
      this.#pending.set(own, { resolve, reject })
    })
  }

  /** Ends a call of this number, if it goes on: its promise rejects, which nobody is to wait for any more. To be called of each that has a number. */
  end (number: number): void { this.native.end(number) }
}
