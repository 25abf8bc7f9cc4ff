import { resize, windlass } from './jobs.js'

await windlass.migrate()
const id = await windlass.enqueue(resize, { image: 7, width: 64 })
await windlass.cancel(id)

let kept: string | undefined // in a table of yours, written in the transaction in which you handle the event
for await (const { cursor, event, id: job, at } of windlass.events({ after: kept, queues: ['images'] })) { // waits for what comes
  console.log(event, job === id, at <= new Date())
  kept = cursor
  if (event === 'cancelled') break
}
const { events } = await windlass.events({ after: kept }).page() // what is there now

await windlass.configure({ retention: '7d' }) // the store's policy, for all workers
await windlass.setRetention([{ queue: 'images', outcome: 'discarded', age: '14d', count: 1_000 }])
const { counts } = await windlass.history('1h', { step: '1m', queue: 'images', outcome: 'failed' }) // what a dashboard draws

console.log(events.length, (await windlass.settings()).retentionMs, (await windlass.retention()).length, counts.length)
