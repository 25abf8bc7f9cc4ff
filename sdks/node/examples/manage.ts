import { resize, sendMail, windlass } from './jobs.js'

await windlass.migrate()
const [first, second] = await windlass.enqueueMany(resize, [{ image: 1, width: 64 }, { image: 2, width: 64 }])
await windlass.enqueue(sendMail, { to: 'you@example.com' })

const { jobs, next } = await windlass.jobs({ state: 'available', kind: 'image.resize', limit: 20 }) // go on with { after: next }
await windlass.cancel(first!) // 'cancelled' | 'running' | 'finished' | 'not_found'
await windlass.edit(second!, { delay: '1h', priority: 5 })
await windlass.retry([first!, second!])
const would = await windlass.cancel({ ids: [first!, second!], dryRun: true }) // what becomes of many, without a change or at a pace
const { done } = await windlass.delete({ kind: 'image.resize' }) // all that a filter selects; dryRun, atMost, perSecond

await windlass.pause('mail')
await windlass.limits.set('mail', { concurrency: 10, rate: { count: 100, period: '1m' } }) // over all workers
await windlass.limits.setKeys('mail', { concurrency: 2 }) // of each tenant, say
await windlass.limits.setKey('mail', 'acme', { weight: 3, rate: { count: 100, period: '1m' } })
await windlass.resume('mail')
await windlass.actingAs('billing').resume('mail') // noted in the audit log
for (const { id } of (await windlass.status()).workers) await windlass.drainWorker(id).catch(() => {}) // each ends what it runs, and goes
const queue = await windlass.queue('mail')
const page = await windlass.queues({ search: 'mail', limit: 50 }) // of thousands; the next one is `after` the last name

console.log(jobs.length, next, would.done, done, queue!.name, page.length)
