import pg from 'pg'
import { defineJob, fromDrizzle, LeaseLost } from 'windlass'
import { drizzle } from 'drizzle-orm/node-postgres'
import { sql } from 'drizzle-orm'
import { enqueueSql } from 'windlass/sql'
import { sendMail, windlass } from './jobs.js'

await windlass.migrate()
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const db = drizzle(pool)
await pool.query('create table if not exists account (id int primary key, balance int not null)')
await pool.query('insert into account values (1, 100) on conflict do nothing')

const client = await pool.connect()
await client.query('begin')
await client.query('update account set balance = balance + 1 where id = $1', [1])
const id = await windlass.enqueueIn(client, sendMail, { to: 'you@example.com' }) // exists if and when this commits
await client.query('commit')

await db.transaction(async tx => {
  await windlass.enqueueIn(fromDrizzle(tx, sql), sendMail, { to: 'you@example.com' })
})

const debit = defineJob<{ account: number, cents: number }>('account.debit')
const worker = windlass.worker({ queues: { default: 10 } }).handle(debit, async ({ account, cents }, job) => {
  await client.query('begin') // READ COMMITTED, PostgreSQL's default
  try {
    await client.query('update account set balance = balance - $1 where id = $2', [cents, account])
    await job.completeIn(client) // last: the effect and its completion commit together, exactly once
    await client.query('commit')
  } catch (error) {
    await client.query('rollback') // also of a LeaseLost: the job is another worker's by now
    throw error
  }
})

// Where no native code runs: edge functions, serverless drivers.
const [text, params] = enqueueSql(sendMail, { to: 'you@example.com' }, { schema: process.env.WINDLASS_SCHEMA })
await pool.query(text, params)

await worker.start()
const debited = await windlass.enqueue(debit, { account: 1, cents: 5 })
console.log((await windlass.wait(debited, '30s'))!.state, (await windlass.job(id))!.state, LeaseLost.name)
await worker.close()
client.release()
await pool.end()
