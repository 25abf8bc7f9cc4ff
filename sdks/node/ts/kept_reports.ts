import { InvalidOption, Unsupported } from './errors.js'
import { encodeStored } from './json.js'
import type { NativeReports } from './native.js'
import type { HandlerReport } from './records.js'

/** Keeps what the handler of one job says, in the place of a store. Sizes are not checked. */
export class KeptReports implements NativeReports {
  readonly #attempt: number
  readonly #log: HandlerReport['log'] = []
  #reportedAt: Date | undefined
  #progress: HandlerReport['progress'] = null
  #checkpoint: string

  /** `checkpoint` is what an earlier attempt left; undefined when nothing. */
  constructor (attempt: number, checkpoint: unknown) {
    this.#attempt = attempt
    this.#checkpoint = checkpoint === undefined ? 'null' : encodeStored(checkpoint, 'the checkpoint')
  }

  /** What was said; null when nothing was. */
  report (): HandlerReport | null {
    if (this.#reportedAt === undefined) return null
    return {
      reportedAt: this.#reportedAt, attempt: this.#attempt, progress: this.#progress, checkpoint: JSON.parse(this.#checkpoint), log: this.#log, logDropped: 0,
    }
  }

  progress (_ticket: number, percent: number, note: string | null): void {
    if (!(percent >= 0 && percent <= 100)) throw new InvalidOption('invalid_option', `progress must be 0 to 100 (per cent), got ${percent}`)
    this.#progress = { percent, note }
    this.#reportedAt = new Date()
  }

  log (_ticket: number, text: string): void {
    this.#reportedAt = new Date()
    this.#log.push({ at: this.#reportedAt, attempt: this.#attempt, text })
  }

  async checkpoint (_ticket: number, value: string): Promise<string> {
    this.#checkpoint = value
    this.#reportedAt = new Date()
    return 'null'
  }

  async lastCheckpoint (): Promise<string> { return this.#checkpoint }

  completeSql (): string {
    throw new Unsupported('unsupported', 'a job without a store cannot be completed in a transaction: test its handler with a worker on PostgreSQL')
  }
}
