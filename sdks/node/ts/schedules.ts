import { fileURLToPath } from 'node:url'
import type { Connection } from './connection.js'
import type { ArgsInput, JobDefinition } from './define.js'
import { check, needsJob } from './enqueue.js'
import { InvalidOption } from './errors.js'
import { encodeStored } from './json.js'
import { onlyKnown, shown } from './known.js'
import { span, time, wireJob, type EnqueueOptions } from './options.js'
import type { Duration } from './duration.js'
import { record } from './records.js'

/**
 * What may hold for the jobs of a schedule. When they run is the schedule's to say, and none is unique: `overlap` says what is meant. `expiresIn` counts from when
 * each is enqueued.
 */
export type ScheduleOptions = Omit<EnqueueOptions, 'unique' | 'delay' | 'scheduledAt' | 'expiresAt'>

/** A job that is enqueued again and again. Made by {@link schedule}, which checks the type of the args. */
export interface ScheduleSpec<J extends JobDefinition = JobDefinition> {
  /** Its name, by which it is changed and removed. */
  name: string
  /** A cron expression of five or six fields, `@daily`, or an interval such as `every 15m`. */
  cron: string
  /** The time zone that cron is meant in. Default UTC. */
  zone?: string | undefined
  startsAt?: Date | undefined
  endsAt?: Date | undefined
  /** Ticks come up to so much late, each schedule at its own moment. */
  jitter?: Duration | undefined
  /** At a tick while the job before has not ended. */
  overlap?: 'allow' | 'skip' | 'queue_one' | undefined
  /** Which ticks fire that nobody was there to fire. */
  missed?: 'none' | 'last' | { all: number } | undefined
  job: J
  args?: ArgsInput<J> | undefined
  /** What holds for its jobs, beside what their definition says. */
  options?: ScheduleOptions | undefined
}

/** A schedule as the store has it. */
export interface ScheduleRecord {
  name: string
  source: string
  definition: unknown
  paused: boolean
  nextTick: Date | null
  dueAt: Date | null
  lastTick: Date | null
  lastJob: number | null
  lastEnqueuedAt: Date | null
  lastRun: string | null
  queuedTick: Date | null
  error: string | null
}

/** What became of schedules that were declared. */
export interface SchedulesPut {
  /** Their names, in order. */
  names: string[]
  /** Of each. */
  replies: Array<'created' | 'changed' | 'unchanged'>
  /** The names of those that `prune` removed. */
  removed: string[]
}

/** Args are left out where `{}`, which is stored then, is some. */
type SaysArgs<J extends JobDefinition> = Record<never, never> extends ArgsInput<J> ? unknown : { args: ArgsInput<J> }

/** A schedule, with args of the type that its job takes. */
export function schedule<J extends JobDefinition> (spec: ScheduleSpec<J> & SaysArgs<J>): ScheduleSpec {
  return spec as unknown as ScheduleSpec
}

/** Schedules of the store: `windlass.schedules`. */
export class Schedules {
  readonly #on: Connection

  /** @internal */
  constructor (on: Connection) { this.#on = on }

  /**
   * Declares schedules, all or none. Those of a `source` belong together; with `prune` what else is of that source is removed.
   *
   * ```ts
   * await windlass.schedules.put([schedule({ name: 'report', cron: '30 6 * * MON-FRI', zone: 'Europe/Berlin', job: report, args: {} })])
   * ```
   */
  async put (schedules: ScheduleSpec[], options: { source?: string | undefined, prune?: boolean | undefined } = {}): Promise<SchedulesPut> {
    if (options.prune && !options.source) {
      throw new InvalidOption('invalid_option', "prune removes what else is of a source, so say which one: put(schedules, { source: 'shop', prune: true })")
    }
    if (!Array.isArray(schedules)) throw new InvalidOption('invalid_option', `put takes an array of schedules, got ${shown(schedules)}`)
    const wire = await Promise.all(schedules.map(wireSchedule))
    return record(await this.#on.call('put_schedules', { schedules: wire, ...options }))
  }

  /**
   * Declares the schedules of a TOML file, all or none: those that `windlass schedules apply` takes, with the `source` that the file names. With `prune` what else is
   * of that source is removed.
   *
   * ```ts
   * await windlass.schedules.putFile(new URL('./schedules.toml', import.meta.url), { prune: true })
   * ```
   */
  async putFile (file: string | URL, { prune = false }: { prune?: boolean | undefined } = {}): Promise<SchedulesPut> {
    if (typeof file !== 'string' && !(file instanceof URL)) throw new InvalidOption('invalid_option', `putFile takes the path of a TOML file, got ${shown(file)}`)
    return record(await this.#on.call('put_schedule_file', { file: file instanceof URL ? fileURLToPath(file) : file, prune }))
  }

  /** A page of schedules by name; go on with `after: next`. */
  async list (options: { source?: string | undefined, after?: string | undefined, limit?: number | undefined } = {}): Promise<{ schedules: ScheduleRecord[], next: string | null }> {
    return record(await this.#on.call('schedules', options))
  }

  /** One schedule; null when there is none of that name. */
  async get (name: string): Promise<ScheduleRecord | null> { return record(await this.#on.call('schedule', { name })) }

  /** Removes a schedule; its jobs stay. */
  async remove (name: string): Promise<void> { await this.#on.call('remove_schedule', { name }) }

  /** Has a schedule not tick. */
  async pause (name: string): Promise<void> { await this.#on.call('pause_schedule', { name }) }

  /** Has a paused schedule tick again. */
  async resume (name: string): Promise<void> { await this.#on.call('resume_schedule', { name }) }

  /** Enqueues the job of a schedule now, beside its ticks; its id. */
  async run (name: string): Promise<number> { return (await this.#on.call('run_schedule', { name }) as { id: number }).id }

  /** The next ticks of a schedule that need not be stored. */
  async preview (spec: ScheduleSpec, options: { after?: Date | undefined, count?: number | undefined } = {}): Promise<Date[]> {
    const payload = { schedule: await wireSchedule(spec), after: time(options.after, 'after'), count: options.count }
    return (await this.#on.call('preview_schedule', payload) as string[]).map(tick => new Date(tick))
  }
}

const OF_SCHEDULE = ['name', 'cron', 'zone', 'startsAt', 'endsAt', 'jitter', 'overlap', 'missed', 'job', 'args', 'options']

async function wireSchedule (spec: ScheduleSpec) {
  onlyKnown(spec, OF_SCHEDULE, 'a schedule')
  const { name, cron, zone, startsAt, endsAt, jitter, overlap, missed, job, args = {}, options } = spec
  needsJob(job)
  await check(job, args)
  encodeStored(args, `the args of schedule "${name}"`)
  return {
    name, cron, zone, overlap, missed, starts_at: time(startsAt, 'startsAt'), ends_at: time(endsAt, 'endsAt'),
    jitter_ms: span(jitter, 'jitter'), job: { ...wireJob(job.kind, job.options, options), args },
  }
}
