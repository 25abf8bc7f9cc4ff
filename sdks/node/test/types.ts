// Checked by tsc alone: what must not compile is expected not to.
import { defineJob, schedule, type ArgsInput, type ArgsOf, type EnqueuedUnique, type Job, type JobEvent, type JobRecord, type Touched, type Windlass } from 'windlass'
import { JobBatchHandler, JobHandler } from 'windlass/nestjs'
import { enqueueSql } from 'windlass/sql'
import { perform } from 'windlass/testing'
import type { Client } from 'pg'
import type { Sql } from 'postgres'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
const yes = <T extends true>(): T | undefined => undefined

export const mail = defineJob('mail.send', { args: z.object({ to: z.string(), copies: z.coerce.number().default(1) }), queue: 'mail' })
export const resize = defineJob<{ image: number, width: number }>('image.resize', { queue: 'images' })
export const tick = defineJob('tick')

yes<Equal<ArgsOf<typeof mail>, { to: string, copies: number }>>()
yes<Equal<ArgsOf<typeof resize>, { image: number, width: number }>>()
yes<Equal<ArgsInput<typeof resize>, { image: number, width: number }>>()

export async function program (windlass: Windlass, pg: Client, sql: Sql): Promise<void> {
  await windlass.enqueue(mail, { to: 'a' })
  await windlass.enqueue(tick, {})
  // @ts-expect-error: to is a text
  await windlass.enqueue(mail, { to: 7 })
  // @ts-expect-error: width is missing
  await windlass.enqueue(resize, { image: 7 })
  // @ts-expect-error: there is no such field
  await windlass.enqueue(resize, { image: 7, width: 8, height: 9 })
  // @ts-expect-error: there is no such option
  await windlass.enqueue(resize, { image: 7, width: 8 }, { delai: '5m' })
  // @ts-expect-error: an array of args
  await windlass.enqueueMany(resize, { image: 7, width: 8 })
  // @ts-expect-error: a unique job takes no idempotency key
  await windlass.enqueueUnique(resize, { image: 7, width: 8 }, { idempotencyKey: 'a' })
  await windlass.enqueueIn(pg, resize, { image: 7, width: 8 })
  await windlass.enqueueIn(sql, resize, { image: 7, width: 8 })
  // @ts-expect-error: a number runs no statement
  await windlass.enqueueIn(7, resize, { image: 7, width: 8 })
  // @ts-expect-error: the args are checked here, too
  enqueueSql(resize, { image: '7', width: 8 })
  const one: 'cancelled' | 'running' | 'finished' | 'not_found' = await windlass.cancel(7)
  const all: number = (await windlass.cancel({ kind: 'x' })).done
  // @ts-expect-error: an edit says what to change
  await windlass.edit(7)
  void [one, all]
  for await (const event of windlass.events({ queues: ['mail'], events: ['failed'] })) {
    yes<Equal<typeof event, JobEvent>>()
    yes<Equal<typeof event.at, Date>>()
  }
  // @ts-expect-error: there is no such event
  windlass.events({ events: ['lost'] })
  const seconds: number = (await windlass.settings()).retentionMs / 1_000
  // @ts-expect-error: settings are changed by their names
  await windlass.configure({ retentionMs: seconds })
  // @ts-expect-error: running jobs have not ended
  await windlass.setRetention([{ outcome: 'running', age: '1d' }])
  // @ts-expect-error: what is enqueued is not counted
  await windlass.history('1h', { outcome: 'enqueued' })
  const daily = { name: 'a', cron: '@daily', job: resize, args: { image: 7, width: 8 } }
  schedule({ ...daily, options: { meta: { a: 1 }, expiresIn: '1h', key: 'acme', timeout: '1m' } })
  schedule({ name: 'a', cron: '@daily', job: tick })
  // @ts-expect-error: the job takes args
  schedule({ name: 'a', cron: '@daily', job: resize })
  // @ts-expect-error: the overlap policy says what is meant
  schedule({ ...daily, options: { unique: { args: true } } })
  // @ts-expect-error: the ticks say when
  schedule({ ...daily, options: { delay: '1h' } })
  await perform(mail, ({ copies }) => copies, { to: 'a' }, { attempt: 2, key: 'acme' })
  // @ts-expect-error: to is a text
  await perform(mail, () => {}, { to: 7 })
  // @ts-expect-error: a handler takes the args of its job
  await perform(resize, (_: { image: string }) => {}, { image: 7, width: 8 })
  const [unique] = await windlass.enqueueManyUnique(resize, [{ image: 7, width: 8 }])
  yes<Equal<typeof unique, EnqueuedUnique | undefined>>()
  windlass.worker({ queues: { mail: 1 } })
    .handle(mail, ({ to, copies }, job) => {
      yes<Equal<typeof copies, number>>()
      yes<Equal<typeof job, Job<{ to: string, copies: number }>>>()
      return to.repeat(copies)
    })
    .handleBatch(resize, { maxSize: 10, wait: '1s' }, async jobs => jobs.map(job => job.args.width))
    .handleAny((args, job) => {
      yes<Equal<typeof args, unknown>>()
      return job.kind
    })
    // @ts-expect-error: a length is no text
    .handle(tick, () => resize.options.queue?.length satisfies string)
  windlass.use(async (job, next) => { if ((await next()).type === 'retry') console.log(job.id) })
  // @ts-expect-error: an outcome, or nothing
  windlass.use(async () => 7)
  // @ts-expect-error: there is no such way to settle
  windlass.worker({ queues: { mail: 1 }, settling: 'lax' })
  // @ts-expect-error: name the queues
  windlass.worker({})
  const { signal } = new AbortController()
  const waited = windlass.wait(1, '1s', { signal })
  yes<Equal<typeof waited, Promise<JobRecord | null>>>()
  const deleted = windlass.delete({ queue: 'mail', signal })
  yes<Equal<typeof deleted, Promise<Touched>>>()
  void windlass.worker({ queues: { mail: 1 } }).run({ signal })
  // @ts-expect-error: the signal, not its controller
  void windlass.wait(1, '1s', { signal: new AbortController() })
  // @ts-expect-error: there is no such option
  void windlass.worker({ queues: { mail: 1 } }).close({ abort: signal })
  // @ts-expect-error: a schema or a type, not both
  defineJob<{ a: number }>('x', { args: z.object({ a: z.number() }) })
}

export class Handlers {
  @JobHandler(mail)
  async send (args: ArgsOf<typeof mail>, job: Job) { return [args.copies, job.id] }

  @JobHandler(tick)
  tick () {}

  // @ts-expect-error: image is a number
  @JobHandler(resize)
  resize (args: { image: string, width: number }) { return args }

  @JobBatchHandler(resize, { maxSize: 10 })
  all (jobs: Array<Job<{ image: number, width: number }>>) { return jobs.map(job => job.args.width) }

  // @ts-expect-error: a batch is an array
  @JobBatchHandler(resize, { maxSize: 10 })
  notAll (args: { image: number, width: number }) { return args }
}
