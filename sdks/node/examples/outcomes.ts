import { cancel, defineJob, discard, retry, snooze, Windlass } from 'windlass'

const windlass = new Windlass(process.env.WINDLASS_STORE ?? 'sqlite:jobs.db')
const say = defineJob<{ say: string }>('say')
await windlass.migrate()
const ids = await windlass.enqueueMany(say, ['snooze', 'retry', 'cancel', 'discard', 'throw', 'return'].map(say => ({ say })))

await using worker = windlass.worker({ queues: { default: 10 }, onError: error => console.log(String(error)) })
  .handle(say, ({ say }) => {
    if (say === 'snooze') return snooze('5m') // not now; uses up no attempt
    if (say === 'retry') return retry({ after: '1h', error: 'no route' }) // failed; without `after` by the retry policy
    if (say === 'cancel') return cancel('no longer wanted')
    if (say === 'discard') throw discard('not an image') // it can never succeed; outcomes may be thrown from the depth
    if (say === 'throw') throw new Error('no route') // failed, too
    return { said: say } // completed, with a result
  })
await worker.start()

for (const id of ids.slice(2, 4)) await windlass.wait(id, '30s')
await worker.untilIdle()
for (const id of ids) console.log((await windlass.job(id))!.state)
