// What handlers of windlass-chaos do, as the args of their jobs ask for: `Task` of crates/windlass-chaos/src/actor/task.rs.
import { setTimeout } from 'node:timers/promises'
import { cancel, defineJob, discard, retry, snooze, WindlassError, Windlass, type Job } from 'windlass'
import { Outcome } from '#internal/outcome'
import pg from 'pg'
import { note } from './native.js'

/** What to do: its name alone, or with a number. */
export interface Task { key: number, act: string | Record<string, number> }

export const work = defineJob<Task>('work')
export const rare = defineJob<Task>('rare')

/** How many checkpoints an attempt keeps, as in Rust. */
const CHECKPOINTS = 2

/** Does what is asked for, and notes how it begins and ends. */
export async function handle ({ key, act }: Task, job: Job): Promise<unknown> {
  note(job, 'Started', { key, attempt: job.attempt })
  let ended = 'retry'
  try {
    const said = await perform(key, act, job)
    ended = said instanceof Outcome ? String(said.message.type) : 'complete'
    return said
  } catch (error) {
    if (job.signal.aborted) ended = 'interrupted'
    throw error
  } finally {
    note(job, 'Finished', { outcome: ended })
  }
}

async function perform (key: number, act: Task['act'], job: Job): Promise<unknown> {
  const [name, number] = typeof act === 'string' ? [act, 0] : Object.entries(act)[0]!
  switch (name) {
    case 'done': return
    case 'sleep': return setTimeout(number, undefined, { signal: job.signal })
    case 'return': note(job, 'Returned'); return { key }
    case 'fail': return job.attempt <= number ? retry({ error: `attempt ${job.attempt} fails on request` }) : undefined
    case 'checkpoint': return keepCheckpoints(number, job)
    case 'panic': if (job.attempt === 1) throw new Error('throws on request'); return
    case 'snooze': return Date.now() - job.enqueuedAt.getTime() < number ? snooze(20) : undefined
    case 'cancel': return cancel('on request')
    case 'discard': return discard('on request')
    case 'effect': return effect(number, job)
    case 'abort': if (job.crashCount < number) process.kill(process.pid, 'SIGABRT'); return
    default: // what a handler throws would be an attempt that failed
      console.error(`this actor knows no ${name}`)
      process.exit(2)
  }
}

/** Goes on from the last checkpoint. */
async function keepCheckpoints (times: number, job: Job): Promise<unknown> {
  try {
    const from = await job.lastCheckpoint<number>() ?? 0
    note(job, 'Resumed', { from })
    for (let value = from + 1; value <= from + CHECKPOINTS; value++) {
      job.progress(value % 100)
      note(job, 'CheckpointSent', { value })
      await job.checkpoint(value)
      note(job, 'CheckpointKept', { value })
    }
  } catch (error) {
    if (error instanceof WindlassError) return retry({ error: error.message })
    throw error
  }
  return job.attempt > times ? undefined : retry({ error: 'goes on from its checkpoint' })
}

/** The effect and the completion in one transaction. */
async function effect (openFor: number, job: Job): Promise<unknown> {
  const client = new pg.Client(database())
  client.on('error', () => {}) // a cut connection is told by the query, too
  try {
    await client.connect()
    await client.query('begin')
    await client.query('insert into public.chaos_effect (job) values ($1)', [job.id])
    await job.completeIn(client)
    await setTimeout(openFor, undefined, { signal: job.signal })
    note(job, 'EffectSent')
    await client.query('commit')
  } catch (error) {
    job.signal.throwIfAborted()
    return retry({ error: String(error) })
  } finally {
    await client.end().catch(() => {})
  }
}

/** The URL of the order's store without what is Windlass's in it. */
function database (): string {
  const url = new URL(process.env.WINDLASS_CHAOS_STORE!)
  for (const name of ['schema', 'pooler']) url.searchParams.delete(name)
  return url.href
}

/** The client of an order's store, which `effect` connects to, too, in threads as well. */
export function open (store: string): Windlass {
  process.env.WINDLASS_CHAOS_STORE = store
  return new Windlass(store)
}
