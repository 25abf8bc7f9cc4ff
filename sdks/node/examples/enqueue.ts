import { resize, sendMail, windlass } from './jobs.js'

await windlass.migrate()

const id = await windlass.enqueue(sendMail, { to: 'you@example.com' }) // checked by the compiler and by the schema
await windlass.enqueue(sendMail, { to: 'you@example.com' }, { delay: '5m', priority: -5, key: 'acme', tags: ['welcome'] })
await windlass.enqueue(sendMail, { to: 'you@example.com' }, { idempotencyKey: 'welcome/7' }) // repeated, it stores nothing
await windlass.enqueueMany(resize, [64, 128, 256].map(width => ({ image: 7, width }))) // one call, all or none

const debounced = { unique: { fields: ['image'], until: 'started', onConflict: 'replace', maxWait: '1m' }, delay: '10s' } as const
const { conflict } = await windlass.enqueueUnique(resize, { image: 7, width: 512 }, debounced)

console.log((await windlass.job(id))!.state, conflict)
