import type { NativeClient } from './native.js'

/** Those of Node, also where a test puts timers of its own in their place later: one that is begun by these and ended by those would go on. */
const { clearInterval, setInterval } = globalThis
const { nextTick } = process

/** Calls: a store takes fewer together, however they come. As many as in the store's group commit (group_commit.rs). */
const few = 24

interface Pending { resolve: (text: string) => void, reject: (error: Error) => void }

/** The calls of one native client: promises that are settled together, as their answers come. */
export class Calls {
  readonly native: NativeClient
  readonly #pending = new Map<number, Pending>()
  #last = 0
  #alive: NodeJS.Timeout | undefined
  /** Of calls in one turn of the loop, so many are started before the turn is over, where none is under way. */
  #half = few
  /** Calls still to be started: those that are made in one turn of the loop are started together. Of many, half go ahead: the others are ready by the
   * time that the store has these, and from then on one half is stored while the other is prepared. */
  #ops: string[] = []
  #payloads: string[] = []
  #numbers: number[] = []

  private constructor (native: NativeClient) { this.native = native }

  /** Opens a client with a bell that rings when there are answers. The native part keeps the bell, which must not keep the client. */
  static async open (open: (bell: () => void) => Promise<NativeClient>): Promise<Calls> {
    let calls: WeakRef<Calls> | undefined
    const opened = new Calls(await open(() => {
      const left = calls?.deref()
      if (left) left.#fetch()
    }))
    calls = new WeakRef(opened)
    return opened
  }

  #fetch (): void {
    const answered = this.native.answers()
    if (!answered) return
    this.#half = Math.max(few, answered.numbers.length >> 1)
    for (const [nth, number] of answered.numbers.entries()) {
      const text = answered.texts[nth]!
      if (number > 0) this.#take(number)?.resolve(text)
      else this.#take(-number)?.reject(new Error(text))
    }
  }

  #take (number: number): Pending | undefined {
    const pending = this.#pending.get(number)
    this.#pending.delete(number)
    if (this.#pending.size === 0) clearInterval(this.#alive)
    return pending
  }

  /** For a call that may be ended. One that has been under way since they went round keeps its own. */
  number (): number {
    do this.#last = this.#last % (2 ** 31 - 1) + 1; while (this.#pending.has(this.#last))
    return this.#last
  }

  /** Does one operation of the core: JSON text in, JSON text out. With a number it can be ended. */
  call (op: string, payload: string, number?: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const own = number ?? this.number()
      if (this.#numbers.length === 0) nextTick(() => this.#start())
      this.#ops.push(op)
      this.#payloads.push(payload)
      this.#numbers.push(number === undefined ? own : -own)
      // The process goes on as long as somebody waits, and so does this.
      if (this.#pending.size === 0) this.#alive = setInterval(() => this, 2 ** 31 - 1)
      this.#pending.set(own, { resolve, reject })
      if (this.#numbers.length >= this.#half && this.#pending.size === this.#numbers.length) this.#start()
    })
  }

  #start (): void {
    const [ops, payloads, numbers] = [this.#ops, this.#payloads, this.#numbers]
    this.#ops = []
    this.#payloads = []
    this.#numbers = []
    try {
      if (numbers.length > 0) this.native.start(ops, payloads, numbers)
    } catch (error) { // a defect in Windlass: who waits is told, and the process goes on
      for (const number of numbers) this.#take(Math.abs(number))?.reject(error as Error)
    }
  }

  /** Ends a call of this number, if it goes on: its promise rejects, which nobody is to wait for any more. To be called of each that has a number. */
  end (number: number): void {
    this.#start()
    this.native.end(number)
  }

  async close (): Promise<void> {
    this.#start()
    await this.native.close()
  }
}
