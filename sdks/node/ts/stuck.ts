import { setTimeout as sleep } from 'node:timers/promises'
import type { Pulse, Ran } from './pulse.js'

/** How often one looks after a thread that computes, and how long it may go on with a job that was taken away: ms. */
const EVERY = 2_000
const LAST = 1_000

/**
 * Finds a thread that computes on with a job that is no longer its worker's: that job's time was over, or it was cancelled or taken away, and the thread cannot hear it.
 * What it would run next would wait for ever. Returns what ends the watch.
 */
export function watch (pulse: Pulse, isTakenAway: (job: Ran) => Promise<boolean>, giveUp: (job: Ran) => void, every = EVERY, last = LAST): () => void {
  let [beats, asks, over] = [-1n, false, false]
  const end = (): void => {
    over = true
    clearInterval(timer)
  }
  const look = async (job: Ran, seen: bigint): Promise<void> => {
    if (!await isTakenAway(job)) return
    await sleep(last, undefined, { ref: false }) // one that hears of it asks for another job at once
    if (over || !pulse.giveUp(seen)) return
    end()
    giveUp(job)
  }
  const timer = setInterval(() => {
    const [before, job] = [beats, pulse.job]
    beats = pulse.beats
    if (asks || job === undefined || before !== beats) return
    asks = true
    look(job, beats).catch(() => {}).finally(() => { asks = false }) // where the store cannot be asked now, it is the next time
  }, every).unref()
  return end
}
