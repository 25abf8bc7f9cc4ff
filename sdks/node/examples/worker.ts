import { cancel, retry, type Job } from 'windlass'
import { resize, sendMail, windlass } from './jobs.js'

const unsubscribed = async (to: string) => to.startsWith('nobody')
const post = async (to: string, options: { signal: AbortSignal }) => { options.signal.throwIfAborted(); console.log('mail to', to) }

const worker = windlass.worker({ queues: { mail: 50, images: 4 } }) // how many run at once
  .handle(sendMail, async ({ to }, job) => { // args as the schema has them
    if (await unsubscribed(to)) return cancel('unsubscribed')
    if (job.attempt > 3) return retry({ after: '1h', error: 'still failing' })
    await post(to, { signal: job.signal }) // aborted when the job should stop
  })
  .handle(resize, async ({ image, width }, job: Job) => {
    job.log(`image ${image} of attempt ${job.attempt}`)
    return { path: `${image}@${width}.png` } // kept as the job's result
  })

await worker.run() // until SIGINT or SIGTERM
