import { defineJob, retry, Windlass } from 'windlass'

const windlass = new Windlass(process.env.WINDLASS_STORE ?? 'sqlite:jobs.db')
await windlass.migrate()
const search = { bulk: async (events: number[]) => new Map(events.filter(event => event % 100 === 0).map(event => [event, 'refused'])) }

const indexEvent = defineJob<{ event: number }>('event.index', { queue: 'events' })
const worker = windlass.worker({ queues: { events: 2 } })
  .handleBatch(indexEvent, { maxSize: 500, wait: '200ms' }, async jobs => {
    const failed = await search.bulk(jobs.map(job => job.args.event))
    return jobs.map(job => failed.has(job.args.event) ? retry({ error: failed.get(job.args.event) }) : undefined)
  })

await windlass.enqueueMany(indexEvent, Array.from({ length: 1_000 }, (_, event) => ({ event })))
await worker.start()
await worker.untilIdle()
await worker.close()
const { completed, retried } = worker.stats()
console.log(completed, retried)
