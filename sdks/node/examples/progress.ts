import { defineJob, Windlass } from 'windlass'

const windlass = new Windlass(process.env.WINDLASS_STORE ?? 'sqlite:jobs.db')
await windlass.migrate()
const importParts = defineJob<{ parts: number }>('import', { retryPolicy: { backoff: 'fixed', base: '10ms' } })

await using worker = windlass.worker({ queues: { default: 1 }, onError: () => {} })
  .handle(importParts, async ({ parts }, job) => {
    for (let part = await job.lastCheckpoint<number>() ?? 0; part < parts; part++) {
      job.progress(100 * part / parts, `part ${part}`)
      // ... the work of one part ...
      if (part === 2 && job.attempt === 1) throw new Error('cut off')
      await job.checkpoint(part + 1) // from here on this part is never done again
    }
    return `${parts} parts`
  })
await worker.start()

const id = await windlass.enqueue(importParts, { parts: 4 })
const ended = await windlass.wait(id, '30s') // null: not yet
if (ended?.state === 'completed') console.log(await windlass.result<string>(id))
console.log((await windlass.job(id))!.attempt, await windlass.checkpoint(id))
