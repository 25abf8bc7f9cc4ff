import { currentJob, defineJob, trackJob, Windlass } from 'windlass'

const windlass = new Windlass(process.env.WINDLASS_STORE ?? 'sqlite:jobs.db')
await windlass.migrate()
const report = async (error: unknown, kind: string) => { console.log('dead:', kind, String(error)) }
const deepInside = async () => { console.log(`in job ${currentJob()!.kind}`) }

windlass.use(async (job, next) => {
  const began = performance.now()
  const outcome = await next() // runs the handler; it never rejects
  console.log(`${job.kind} ${outcome.type} after ${Math.round(performance.now() - began)} ms`)
  if (outcome.thrown && job.attempt === job.maxAttempts) await report(outcome.thrown.error, job.kind)
})
windlass.use(trackJob) // has currentJob() know the job, from anywhere below its handler

const fails = defineJob<{ n: number }>('fails', { maxAttempts: 1 })
const worker = windlass.worker({ queues: { default: 1 }, onError: () => {} }).handle(fails, async () => {
  await deepInside()
  throw new Error('no route')
})
const id = await windlass.enqueue(fails, { n: 1 })
await worker.start()
await windlass.wait(id, '30s')
await worker.close()
