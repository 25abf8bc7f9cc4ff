import { randomBytes } from 'node:crypto'
import { defineJob, Windlass } from 'windlass'

const store = process.env.WINDLASS_STORE ?? 'sqlite:jobs.db'
const keys = process.env.WINDLASS_KEYS ?? `2026-11:${randomBytes(32).toString('base64')}` // ID:BASE64,ID:BASE64: the first seals, all open

const openAccount = defineJob<{ name: string, passport: string }>('account.open', { encrypted: true })
await using windlass = new Windlass(store, { keys })
await windlass.migrate()
const id = await windlass.enqueue(openAccount, { name: 'Ada', passport: 'C01X00T47' })

await using worker = windlass.worker({ queues: { default: 1 } }).handle(openAccount, ({ name }) => `opened for ${name}`) // open to the handler
await worker.start()
await windlass.wait(id, '30s')

const { args } = (await windlass.job(id))! // what everybody sees
console.log(Object.keys(args as object), await windlass.args(id), await windlass.result(id)) // what whoever has the key sees
