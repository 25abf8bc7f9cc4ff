import assert from 'node:assert/strict'
import { createServer, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { drizzle } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleJs } from 'drizzle-orm/postgres-js'
import { sql as drizzleSql } from 'drizzle-orm'
import Knex from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgresJs from 'postgres'
import { DataSource } from 'typeorm'
import { defineJob, fromDrizzle, fromKnex, fromKysely, fromPrisma, InvalidArgs, LeaseLost, UniqueConflict, Windlass, type Executor } from 'windlass'
import { enqueueBy, enqueueManySql, enqueueSql } from 'windlass/sql'
import { z } from 'zod'
import { ended, onPostgres, postgres, Signal, started } from './support.js'

const mail = defineJob('mail.send', { args: z.object({ to: z.string() }), queue: 'mail', maxAttempts: 5 })
const server = postgres() ?? ''
/** What a transaction throws that is to be rolled back. */
const undo = new Error('rolled back')

/** Runs work in a transaction, which rolls back when that throws. */
type Transaction = (work: (executor: Executor) => Promise<unknown>) => Promise<unknown>

function pool (t: TestContext): pg.Pool {
  const pool = new pg.Pool({ connectionString: server, max: 2 })
  t.after(() => pool.end())
  return pool
}

/** A connection that is in no transaction but those that a test begins. */
async function connected (t: TestContext): Promise<pg.Client> {
  const client = new pg.Client(server)
  await client.connect()
  t.after(() => client.end())
  return client
}

async function begin (pool: pg.Pool, work: (client: pg.PoolClient) => Promise<unknown>): Promise<unknown> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const answer = await work(client)
    await client.query('commit')
    return answer
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

const LIBRARIES: Record<string, (t: TestContext) => Transaction> = {
  pg: t => { const db = pool(t); return work => begin(db, work) },
  'postgres.js': t => { const sql = postgresJs(server, { max: 2 }); t.after(() => sql.end()); return work => sql.begin(tx => work(tx)) },
  Drizzle: t => { const db = drizzle(pool(t)); return work => db.transaction(tx => work(fromDrizzle(tx, drizzleSql))) },
  Knex: t => { const knex = Knex({ client: 'pg', connection: server }); t.after(() => knex.destroy()); return work => knex.transaction(trx => work(fromKnex(trx))) },
  Kysely: t => {
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: server }) }) })
    t.after(() => db.destroy())
    return work => db.transaction().execute(trx => work(fromKysely(trx)))
  },
  // Its generator wants binaries that npm does not have: what it does with a statement is said by its structural type.
  'Prisma, by its type': t => { const db = pool(t); return work => begin(db, client => work(fromPrisma({ $queryRawUnsafe: async (text, ...params) => (await client.query(text, params)).rows }))) },
  TypeORM: t => {
    const source = new DataSource({ type: 'postgres', url: server })
    const opened = source.initialize()
    t.after(async () => { await (await opened).destroy() })
    return async work => (await opened).transaction(manager => work(manager))
  },
  'a query runner of TypeORM': t => {
    const source = new DataSource({ type: 'postgres', url: server })
    const opened = source.initialize()
    t.after(async () => { await (await opened).destroy() })
    return async work => {
      const runner = (await opened).createQueryRunner()
      await runner.startTransaction()
      try {
        const answer = await work(runner)
        await runner.commitTransaction()
        return answer
      } catch (error) {
        await runner.rollbackTransaction()
        throw error
      } finally {
        await runner.release()
      }
    }
  },
}

for (const [library, open] of Object.entries(LIBRARIES)) {
  onPostgres(`${library}: a job exists if and when its transaction commits`, async ({ windlass }, t) => {
    const transaction = open(t)
    const tricky = `o'hara $1 ? :x \\ "é😀"`
    let id = 0
    await transaction(async tx => {
      id = await windlass.enqueueIn(tx, mail, { to: tricky }, { delay: '1h', key: 'acme', meta: { r: 1 }, tags: ['x'], timeout: '5m', priority: -3, cost: 2, retryPolicy: { backoff: 'fixed', base: '1m' } })
      assert.equal(await windlass.job(id), null, 'not committed yet')
    })
    const job = (await windlass.job(id))!
    assert.deepEqual([job.kind, job.queue, job.priority, job.maxAttempts, job.state, job.args], ['mail.send', 'mail', -3, 5, 'scheduled', { to: tricky }])
    assert.deepEqual([job.key, job.meta, job.tags, job.timeoutMs, job.cost, job.retryPolicy!.baseMs], ['acme', { r: 1 }, ['x'], 300_000, 2, 60_000])
    await assert.rejects(transaction(async tx => { await windlass.enqueueIn(tx, mail, { to: 'b' }); throw undo }), undo)
    let ids: number[] = []
    await transaction(async tx => { ids = await windlass.enqueueManyIn(tx, mail, [{ to: '0' }, { to: '1' }, { to: '2' }]) })
    assert.deepEqual(await Promise.all(ids.map(async id => (await windlass.job(id))!.args)), [{ to: '0' }, { to: '1' }, { to: '2' }])
    assert.equal((await windlass.jobs({ queue: 'mail' })).jobs.length, 4)
    await assert.rejects(transaction(tx => windlass.enqueueIn(tx, mail, { to: 'a' }, { priority: 4_000 })), /4000/)
    await assert.rejects(transaction(tx => windlass.enqueueIn(tx, mail, { to: 7 } as never)), InvalidArgs)
    assert.deepEqual(await windlass.enqueueManyIn({ query: () => assert.fail('asked') }, mail, []), [])
  })

  onPostgres(`${library}: a job is completed with its effects, exactly once`, async ({ windlass }, t) => {
    const transaction = open(t)
    const seen: string[] = []
    const debit = defineJob<{ account: number }>('debit', { retryPolicy: { backoff: 'fixed', base: 0, jitter: 0 } })
    await started(t, windlass.worker({ queues: { default: 5 }, onError: () => {} }).handle(debit, async (_, job) => {
      if (job.attempt === 1) {
        await transaction(async tx => { await windlass.enqueueIn(tx, mail, { to: 'undone' }); await job.completeIn(tx); throw undo })
      }
      await transaction(async tx => { await windlass.enqueueIn(tx, mail, { to: 'done' }); await job.completeIn(tx) })
      await assert.rejects(transaction(tx => job.completeIn(tx)), (error: LeaseLost) => { seen.push(error.name); return error instanceof LeaseLost && /settled already/.test(error.message) })
    }))
    const id = await windlass.enqueue(debit, { account: 7 })
    const job = await ended(windlass, id)
    assert.deepEqual([job.state, job.attempt, job.errors.length], ['completed', 2, 1])
    assert.deepEqual((await windlass.jobs({ queue: 'mail' })).jobs.map(({ args }) => args), [{ to: 'done' }])
    await windlass.wait(id, 0)
  })
}

onPostgres('a job that was taken away cannot be completed, and its effects are rolled back', async ({ windlass }, t) => {
  const db = pool(t)
  const job = defineJob('slow', { timeout: 20, maxAttempts: 1 })
  const [gone, outcome] = [new Signal(), new Signal<unknown>()]
  await started(t, windlass.worker({ queues: { default: 1 }, onError: () => {} }).handle(job, async (_, job) => {
    await gone.promise
    await begin(db, async tx => { await windlass.enqueueIn(tx, mail, { to: 'effect' }); await job.completeIn(tx) }).catch(outcome.fire)
  }))
  assert.equal((await ended(windlass, await windlass.enqueue(job, {}))).state, 'discarded')
  gone.fire()
  assert.ok(await outcome.promise instanceof LeaseLost)
  assert.equal((await windlass.jobs({ queue: 'mail' })).jobs.length, 0)
})

onPostgres('a database without Windlass says what to do', async (_, t) => {
  const db = await connected(t)
  const statement = enqueueSql(mail, { to: 'a' }, { schema: 'not_there' })
  await assert.rejects(db.query(...statement), { code: '3F000' })
  const elsewhere = new Windlass(`${server}?schema=not_there`)
  t.after(() => elsewhere.close())
  await assert.rejects(elsewhere.enqueueIn(db, mail, { to: 'a' }), { name: 'SchemaMismatch', message: /not installed in the database of this connection; .* `npx windlass --store URL migrate`/ })
})

onPostgres('enqueueIn refuses what is in no transaction, and says what enqueues without one', async ({ windlass }, t) => {
  const sql = postgresJs(server, { max: 1 })
  const source = await new DataSource({ type: 'postgres', url: server }).initialize()
  const knex = Knex({ client: 'pg', connection: server })
  t.after(() => Promise.all([sql.end(), source.destroy(), knex.destroy()]))
  const db = pool(t)
  const refused = { name: 'InvalidOption', message: /^a pool is in no transaction, so the job would be there also when yours rolls back: .*windlass\.enqueue does it, or a statement of enqueueSql/ }
  const unique = { unique: { key: 'k' }, tags: ['x'] } // by a statement of the engine
  const drizzles = [drizzle(db), drizzleJs(sql)].map(each => fromDrizzle(each, drizzleSql))
  for (const each of [db, sql, source, source.manager, ...drizzles, fromKnex(knex)]) {
    await assert.rejects(windlass.enqueueIn(each, mail, { to: 'a' }), refused)
    await assert.rejects(windlass.enqueueIn(each, mail, { to: 'a' }, unique), refused)
    await assert.rejects(windlass.enqueueManyIn(each, mail, [{ to: 'a' }, { to: 'b' }]), refused)
  }
  assert.deepEqual((await windlass.jobs()).jobs, [])
})

test('what is no transaction at all is refused by an error of Windlass, which shows no password', async t => {
  const windlass = new Windlass('postgres://nobody@127.0.0.1:1/nowhere')
  t.after(() => windlass.close())
  const client = { query: () => assert.fail('asked') }
  for (const [odd, got] of [[null, 'null'], [undefined, 'undefined'], [7, 'number'], ['postgres://me:secret@localhost/app', 'string'], [pg, 'object']] as Array<[any, string]>) {
    const refused = { name: 'InvalidOption', message: new RegExp(`^pass the transaction: a client of pg.*; got ${got}$`) }
    await assert.rejects(windlass.enqueueIn(odd, mail, { to: 'a' }), refused)
    await assert.rejects(windlass.enqueueManyIn(odd, mail, []), refused)
    await assert.rejects(enqueueBy(odd, mail, [{ to: 'a' }]), refused)
  }
  await assert.rejects(windlass.enqueueManyIn(client, mail, { to: 'a' } as never), { name: 'InvalidOption', message: /takes an array of args/ })
  await assert.rejects(windlass.enqueueIn(client, mail, { to: 'a' }, { schema: 7 } as never), { name: 'InvalidOption', message: /the schema is a text, got 7/ })
  assert.deepEqual(await windlass.enqueueManyIn(client, mail, [], null as never), [])
})

test('a list of args with a hole is refused by SQL, too', async t => {
  const windlass = new Windlass('postgres://nobody@127.0.0.1:1/nowhere')
  t.after(() => windlass.close())
  const client = { query: () => assert.fail('asked') }
  const any = defineJob<unknown>('any')
  const refused = { name: 'InvalidArgs', message: /^job 2 of 3: the array of args has a hole there/ }
  const args = [{}, undefined, ,]
  assert.throws(() => enqueueManySql(any, args), refused)
  await assert.rejects(windlass.enqueueManyIn(client, any, args), refused)
  await assert.rejects(windlass.enqueueManyIn(client, any, args, { unique: { args: true }, tags: ['x'] }), refused)
})

onPostgres('what is in a transaction is no pool: savepoints, reserved connections, and what was begun by hand', async ({ windlass }, t) => {
  const sql = postgresJs(server, { max: 2 })
  const source = await new DataSource({ type: 'postgres', url: server }).initialize()
  const knex = Knex({ client: 'pg', connection: server })
  t.after(() => Promise.all([sql.end(), source.destroy(), knex.destroy()]))
  const db = pool(t)
  const [runner, provided] = [source.createQueryRunner(), await knex.transaction()]
  await runner.query('begin')
  const ids = [
    await drizzle(db).transaction(tx => tx.transaction(point => windlass.enqueueIn(fromDrizzle(point, drizzleSql), mail, { to: 'a' }))),
    await drizzleJs(sql).transaction(tx => windlass.enqueueIn(fromDrizzle(tx, drizzleSql), mail, { to: 'a' })),
    await begin(db, client => windlass.enqueueIn(fromDrizzle(drizzle(client as pg.PoolClient), drizzleSql), mail, { to: 'a' })) as number,
    await knex.transaction(trx => trx.transaction(point => windlass.enqueueIn(fromKnex(point), mail, { to: 'a' }))),
    await windlass.enqueueIn(fromKnex(provided), mail, { to: 'a' }),
    await source.transaction(outer => outer.transaction(manager => windlass.enqueueIn(manager, mail, { to: 'a' }))),
    await windlass.enqueueIn(runner, mail, { to: 'a' }),
    await windlass.enqueueIn(runner.manager, mail, { to: 'a' }),
  ]
  await provided.commit()
  await runner.query('commit')
  await runner.release()
  const saved = await sql.begin(tx => tx.savepoint(point => windlass.enqueueIn(point, mail, { to: 'a' })))
  const reserved = await sql.reserve()
  await reserved`begin`
  const id = await windlass.enqueueIn(reserved, mail, { to: 'b' })
  await reserved`commit`
  reserved.release()
  for (const each of [saved, id, ...ids]) assert.equal((await windlass.job(each))!.state, 'available')
})

onPostgres('completeIn refuses what is in no transaction', async ({ windlass }, t) => {
  const sql = postgresJs(server, { max: 1 })
  const source = await new DataSource({ type: 'postgres', url: server }).initialize()
  t.after(() => Promise.all([sql.end(), source.destroy()]))
  const db = pool(t)
  const job = defineJob('job', { maxAttempts: 1 })
  const refused: string[] = []
  await started(t, windlass.worker({ queues: { default: 1 }, onError: () => {} }).handle(job, async (_, job) => {
    for (const each of [db, sql, source]) await job.completeIn(each).catch(error => refused.push(String(error)))
    await begin(db, tx => job.completeIn(tx))
  }))
  const record = await ended(windlass, await windlass.enqueue(job, {}))
  assert.deepEqual([record.state, record.errors, refused.length], ['completed', [], 3])
  for (const said of refused) assert.match(said, /^InvalidOption: a pool is in no transaction/)
})

onPostgres('completeIn refuses a connection on which no transaction is open', async ({ windlass }, t) => {
  const db = pool(t)
  const source = await new DataSource({ type: 'postgres', url: server }).initialize()
  const knex = Knex({ client: 'pg', connection: server })
  const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: server }) }) })
  t.after(() => Promise.all([source.destroy(), knex.destroy(), kysely.destroy()]))
  const job = defineJob('job', { maxAttempts: 1 })
  const refused: string[] = []
  await started(t, windlass.worker({ queues: { default: 1 }, onError: () => {} }).handle(job, async (_, job) => {
    const client = await db.connect()
    const alone: Executor[] = [client, source.manager, fromDrizzle(drizzle(db), drizzleSql), fromKnex(knex), fromKysely(kysely), fromPrisma({ $queryRawUnsafe: async (text, ...params) => (await client.query(text, params)).rows })]
    for (const each of alone) await job.completeIn(each).catch(error => refused.push(String(error)))
    // A savepoint is within its transaction, and what is rolled back to it is not done.
    await client.query('begin')
    await client.query('savepoint a')
    await job.completeIn(client)
    await client.query('rollback to savepoint a')
    await client.query('savepoint b')
    await job.completeIn(client)
    await client.query('release savepoint b')
    await client.query('commit')
    await assert.rejects(begin(db, tx => job.completeIn(tx)), LeaseLost)
    client.release()
  }))
  const record = await ended(windlass, await windlass.enqueue(job, {}))
  assert.deepEqual([record.state, record.errors, refused.length], ['completed', [], 6])
  for (const said of refused) assert.match(said, /^InvalidOption: (no transaction is open on the connection|a pool is in no transaction)/)
})

onPostgres('names of columns that a library writes anew cost no id', async ({ windlass }, t) => {
  const sql = postgresJs(server, { max: 1, transform: postgresJs.pascal })
  t.after(() => sql.end())
  const job = defineJob('job', { maxAttempts: 1 })
  const unique = { unique: { key: 'k' }, tags: ['x'] } // by a statement of the engine
  await started(t, windlass.worker({ queues: { default: 1 } }).handle(job, async (_, job) => sql.begin(async tx => {
    const ids = [await windlass.enqueueIn(tx, mail, { to: 'a' }), await windlass.enqueueIn(tx, mail, { to: 'b' }, unique)]
    await job.completeIn(tx)
    return ids
  }).then(ids => { seen.push(...ids) })))
  const seen: number[] = []
  const record = await ended(windlass, await windlass.enqueue(job, {}))
  assert.deepEqual([record.state, record.errors], ['completed', []])
  assert.deepEqual(await Promise.all(seen.map(async id => (await windlass.job(id))!.args)), [{ to: 'a' }, { to: 'b' }])
})

onPostgres('completeIn refuses transactions that could not see a lost lease', async ({ windlass }, t) => {
  const db = pool(t)
  const job = defineJob('job', { maxAttempts: 1 })
  await started(t, windlass.worker({ queues: { default: 1 }, onError: () => {} }).handle(job, (_, job) => begin(db, async tx => {
    await tx.query('set transaction isolation level repeatable read')
    await job.completeIn(tx)
  })))
  const record = await ended(windlass, await windlass.enqueue(job, {}))
  assert.match(record.errors[0]!.error, /^InvalidOption: .*READ COMMITTED/i)
})

onPostgres('what enqueue takes and refuses, plain SQL does', async ({ windlass }, t) => {
  const db = await connected(t)
  const id = await windlass.enqueueIn(db, defineJob<object>('open', { encrypted: false }), {}) // as of `encrypted: isProduction`
  assert.equal((await windlass.job(id))!.state, 'available')
  const now = new Date()
  for (const options of [{ delay: '5m', scheduledAt: now }, { expiresIn: '5m', expiresAt: now }] as const) {
    await assert.rejects(windlass.enqueue(mail, { to: 'a' }, options), /exclude each other/)
    await assert.rejects(windlass.enqueueIn(db, mail, { to: 'a' }, options), { name: 'InvalidOption', message: /^(scheduledAt and delay|expiresAt and expiresIn) exclude each other$/ })
  }
  await assert.rejects(windlass.enqueueIn(db, mail, { to: 'a' }, { unique: { key: '' } }), /unique key/)
  assert.equal((await windlass.jobs({ queue: 'mail' })).jobs.length, 0)
})

onPostgres('idempotency keys and unique jobs work by SQL', async ({ windlass }, t) => {
  const db = await connected(t)
  const once = () => windlass.enqueueIn(db, mail, { to: 'a' }, { idempotencyKey: 'k1', delay: '1h' })
  assert.equal(await once(), await once())
  const index = defineJob<{ user: number }>('index', { unique: { fields: ['user'], onConflict: 'error' } })
  const id = await windlass.enqueueIn(db, index, { user: 7 }, { delay: '1h', key: 'x' })
  assert.equal((await windlass.job(id))!.state, 'scheduled')
  await assert.rejects(windlass.enqueueIn(db, index, { user: 7 }), UniqueConflict)
  await assert.rejects(windlass.enqueueUnique(index, { user: 7 }), UniqueConflict)
  assert.equal(await windlass.enqueueIn(db, index, { user: 7 }, { unique: { fields: ['user'] } }), id)
  for (const unique of [{ key: 'k' }, { args: true as const }, { args: true as const, for: '1h', onConflict: 'extend' as const, in: 'queue' as const }]) {
    const byApi = await windlass.enqueueUnique(index, { user: 8 }, { unique })
    assert.deepEqual(await windlass.enqueueIn(db, index, { user: 8 }, { unique }), byApi.id, JSON.stringify(unique))
  }
  assert.throws(() => enqueueSql(index, { user: 9 }, { tags: ['x'] }), /by plain SQL takes no tags; windlass.enqueueIn does/)
  await assert.rejects(windlass.enqueueIn(db, index, { user: 9 }, { tags: ['x'], schema: 'other' }), /takes no tags/)
  await assert.rejects(windlass.enqueueIn(db, index, { user: 9 }, { idempotencyKey: 'x' }), /takes no idempotencyKey/)
})

onPostgres('unique jobs with any option are enqueued in a transaction', async ({ windlass }, t) => {
  const [db, client] = [pool(t), await connected(t)]
  const index = defineJob<{ user: number, change?: string }>('index', { unique: { fields: ['user'] }, timeout: '5m', maxAttempts: 7 })
  const options = {
    key: 'acme', meta: { r: 1 }, tags: ['x'], cost: 2, priority: -3, queue: 'q', retryPolicy: { backoff: 'fixed' as const, base: '1m' },
    expiresAt: new Date('2032-01-01T00:00:00Z'), delay: '1h',
  }
  const byApi = await windlass.enqueueUnique(index, { user: 1 }, options)
  await assert.rejects(begin(db, async tx => { await windlass.enqueueIn(tx, index, { user: 2 }, options); throw undo }), undo)
  const ids = await begin(db, tx => windlass.enqueueManyIn(tx, index, [{ user: 3 }, { user: 2 }, { user: 1 }, { user: 3, change: 'x' }], options)) as number[]
  assert.deepEqual([ids[2], ids[3], new Set(ids).size], [byApi.id, ids[0], 3])
  const shown = async (id: number) => ({ ...(await windlass.job(id))!, id: 0, args: 0, enqueuedAt: 0, scheduledAt: 0 })
  assert.deepEqual(await shown(ids[0]!), await shown(byApi.id))
  assert.deepEqual((await windlass.job(ids[0]!))!.args, { user: 3 })
  const replace = { unique: { fields: ['user'], onConflict: 'replace' as const } }
  assert.equal(await windlass.enqueueIn(client, index, { user: 3, change: 'y' }, { ...options, ...replace }), ids[0])
  assert.deepEqual((await windlass.job(ids[0]!))!.args, { user: 3, change: 'y' })
  await assert.rejects(windlass.enqueueIn(client, index, { user: 3 }, { unique: { fields: ['user'], onConflict: 'error' } }), UniqueConflict)
  await assert.rejects(windlass.enqueueIn(client, index, { user: 3 }, { cost: 0 }), /cost/)
})

onPostgres('options that hold by API hold by SQL', async ({ windlass }, t) => {
  const db = await connected(t)
  const options = {
    scheduledAt: new Date('2031-01-01T00:00:00Z'), expiresAt: new Date('2032-01-01T00:00:00Z'), timeout: 1_500, tags: ['a', 'b'], cost: 3, key: 'k',
    meta: { delay_ms: 1, n: null }, priority: 7, queue: 'q', maxAttempts: 2, retryPolicy: { backoff: 'linear' as const, base: '1s', max: '1m', jitter: 0.5 },
  }
  const job = defineJob<unknown>('job')
  const records = await Promise.all([windlass.enqueue(job, { a: null }, options), windlass.enqueueIn(db, job, { a: null }, options)])
  const [byApi, bySql] = await Promise.all(records.map(async id => ({ ...(await windlass.job(id))!, id: 0, enqueuedAt: null })))
  assert.deepEqual(bySql, byApi)
  const expiring = (await windlass.job(await windlass.enqueueIn(db, job, null, { expiresIn: '1h' })))!
  assert.ok(expiring.expiresAt!.getTime() - expiring.enqueuedAt.getTime() > 3_500_000)
  assert.equal(expiring.args, null)
})

onPostgres('what is refused leaves the transaction as it was', async ({ windlass }, t) => {
  const client = await connected(t)
  const any = defineJob<unknown>('any')
  await client.query('begin')
  for (const [args, options, name] of [
    [{ a: 'a\0' }, {}, 'InvalidArgs'], [{ a: '\ud83d' }, {}, 'InvalidArgs'], [{ 'a\0': 1 }, {}, 'InvalidArgs'], [{}, { meta: { a: '\ud800' } }, 'InvalidOption'],
    [{}, { queue: 'no spaces' }, 'InvalidName'], [{}, { key: 'k'.repeat(300) }, 'InvalidOption'], [{}, { priority: 101 }, 'InvalidOption'],
    [{}, { expiresIn: 0 }, 'InvalidOption'], [{}, { tags: [1] }, 'InvalidOption'], [{}, { scheduledAt: new Date(8.64e15) }, 'InvalidOption'],
    [{}, { unique: { fields: ['none'] } }, 'InvalidArgs'], [{}, { idempotencyKey: 'k', maxAttempts: 0 }, 'InvalidOption'],
  ] as Array<[unknown, any, string]>) {
    await assert.rejects(windlass.enqueueIn(client, any, args, options), { name }, JSON.stringify([args, options]))
    assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }], JSON.stringify([args, options]))
  }
  const id = await windlass.enqueueIn(client, any, { a: '\\u0000 \\ud800 \u{1f600}' })
  await client.query('commit')
  assert.deepEqual((await windlass.job(id))!.args, { a: '\\u0000 \\ud800 \u{1f600}' })
})

onPostgres('a job is stored in a transaction at once, whatever Windlass itself reaches', async ({ windlass, url }, t) => {
  const silent = createServer(() => {}) // which takes a connection, and never answers
  await new Promise<void>(listening => silent.listen(0, '127.0.0.1', listening))
  t.after(() => silent.close())
  const { search } = new URL(url)
  const refused = new URL(url)
  refused.username = 'nobody_here'
  for (const elsewhere of [refused.href, `postgres://me@127.0.0.1:${(silent.address() as AddressInfo).port}/app${search}`]) {
    const of = new Windlass(elsewhere)
    const began = Date.now()
    const ids = await begin(pool(t), async tx => [await of.enqueueIn(tx, mail, { to: 'a' }), ...await of.enqueueManyIn(tx, mail, [{ to: 'b' }], { unique: { args: true } })])
    assert.ok(Date.now() - began < 5_000, `${elsewhere}: ${Date.now() - began} ms`)
    for (const id of ids as number[]) assert.equal((await windlass.job(id))!.kind, 'mail.send')
    await assert.rejects(of.enqueueManyIn({ query: () => assert.fail('asked') }, mail, [{ to: 'a' }], { priority: 101 }), { name: 'InvalidOption', message: /101/ })
    await of.close()
  }
})

onPostgres('unique jobs of a transaction take their keys in one order, and answer in that of the call', async ({ windlass, url }, t) => {
  const db = await connected(t)
  const index = defineJob<object>('index', { unique: { fields: ['user', 'of'] } })
  const jobs = [3, 20, 1, 100].map(user => ({ user, of: { b: 1, a: user } }))
  const ids = await windlass.enqueueManyIn(db, index, jobs)
  assert.deepEqual((await Promise.all(ids.map(id => windlass.job(id)))).map(job => job!.args), jobs)
  // By any statement, in the order of the keys themselves: two that took the same ones in two orders would wait for each other.
  const schema = new URL(url).searchParams.get('schema')!
  const of = (from: number) => Array.from({ length: 20 }, (_, n) => ({ user: from + n, of: `"${n}` }))
  await windlass.enqueueManyIn(db, index, of(1_000), { tags: ['x'] })
  await windlass.enqueueManyIn(db, defineJob<object>('all', { queue: 'q', unique: { args: true, in: 'queue' } }), of(2_000))
  await windlass.enqueueManyIn(db, index, of(3_000))
  const { rows } = await db.query(`SELECT key::text FROM "${schema}".unique_key ORDER BY ctid`)
  const keys: string[] = rows.map(({ key }) => key)
  assert.equal(keys.length, 64)
  for (const from of [0, 4, 24, 44]) assert.deepEqual(keys.slice(from, from === 0 ? 4 : from + 20), keys.slice(from, from === 0 ? 4 : from + 20).sort(), `from ${from}`)
})

onPostgres('of unique jobs of one call with one key the first is kept, or the last replaces it', async ({ windlass }, t) => {
  const db = await connected(t)
  const job = defineJob<{ user: number, said: string }>('job')
  const args = [{ user: 3, said: 'first' }, { user: 2, said: 'second' }, { user: 1, said: 'last' }]
  for (const options of [{}, { tags: ['x'] }]) { // by plain SQL, and by a statement of the engine
    for (const by of [{ key: 'k' }, { fields: ['user'] }]) {
      const of = by.fields ? args.map(({ said }) => ({ user: 7, said })) : args
      for (const [onConflict, stays] of [['keep', 'first'], ['replace', 'last']] as const) {
        const queue = `q-${Object.keys(options)}-${Object.keys(by)}-${onConflict}`
        await windlass.enqueueManyIn(db, job, of, { ...options, queue, unique: { ...by, in: 'queue', onConflict } })
        const { jobs } = await windlass.jobs({ queue, state: 'available' })
        assert.deepEqual(jobs.map(({ args }) => (args as { said: string }).said), [stays], queue)
      }
    }
  }
})

test('statements are plain text with text parameters, for edge runtimes', () => {
  const [text, params] = enqueueSql(mail, { to: 'a' }, { schema: 'job"s' })
  assert.match(text, /^SELECT id FROM "job""s"\.enqueue_many\(/)
  assert.match(enqueueSql(mail, { to: 'a' }, { schema: 'a$$b', unique: { args: true } })[0], / LATERAL "a\$\$b"\.enqueue_unique\(/)
  for (const to of ['a\0', '\ud800']) assert.throws(() => enqueueSql(mail, { to }), { name: 'InvalidArgs', message: /no text that can be stored/ })
  assert.deepEqual(JSON.parse(params[0]!), [{ kind: 'mail.send', queue: 'mail', max_attempts: 5, args: { to: 'a' } }])
  for (const [text, params] of [
    enqueueSql(mail, { to: 'a' }), enqueueManySql(mail, [{ to: 'a' }], { idempotencyKey: 'k' }), enqueueSql(mail, { to: 'a' }, { unique: { args: true } }),
  ]) {
    assert.deepEqual(text.match(/\$\d/g), params.map((_, nth) => `$${nth + 1}`), 'each once, in order')
    assert.ok(!text.includes('?'), 'Knex would read it as a parameter')
  }
  for (const args of [{ to: NaN }, () => 1, Symbol('x'), 1n]) assert.throws(() => enqueueSql(mail, args as never), InvalidArgs)
  assert.throws(() => enqueueSql(mail, { to: 'a' }, { delai: 1 } as never), /"delai" is no option/)
})

test('windlass/sql loads no native code', async () => {
  const { execFileSync } = await import('node:child_process')
  const source = `const { enqueueSql, defineJob } = await import(${JSON.stringify(import.meta.resolve('windlass/sql'))})
    console.log(enqueueSql(defineJob('a'), {})[1][0], process.report.getReport().sharedObjects.filter(name => name.includes('windlass')).length)`
  const out = execFileSync(process.execPath, ['--input-type=module', '--eval', source], { encoding: 'utf8' })
  assert.equal(out, '[{"kind":"a","args":{}}] 0\n')
})

test('what JSON would empty is refused in args that go by SQL, too', async () => {
  const any = defineJob<unknown>('any')
  const elsewhere = new Windlass('postgres://nobody@127.0.0.1:1/nowhere')
  const never = { query: () => assert.fail('asked') }
  for (const [part, words] of [
    [new Map([['a', 1]]), /a Map in the args of kind "any", at part, has no JSON form: write Object.fromEntries/], [new Set([1]), /a Set/], [Promise.resolve(1), /await it first/],
    [Uint8Array.of(1, 2), /a Uint8Array .*toString\('base64'\)/],
  ] as Array<[unknown, RegExp]>) {
    for (const options of [{}, { idempotencyKey: 'k' }, { unique: { args: true as const } }]) {
      assert.throws(() => enqueueSql(any, { part }, options), { name: 'InvalidArgs', message: words })
      await assert.rejects(elsewhere.enqueueIn(never, any, { part }, options), { name: 'InvalidArgs', message: words })
    }
  }
  await elsewhere.close()
})

onPostgres('calls of one turn of the loop are stored together', async ({ windlass, url }, t) => {
  const job = defineJob<{ n?: number }>('a')
  await windlass.enqueue(job, {}) // makes the queue
  for (let turn = 0; turn < 10; turn++) {
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => windlass.enqueue(job, { n }, n % 2 ? { tags: ['odd'] } : {})))
    assert.equal(new Set(ids).size, 50)
  }
  const schema = new URL(url).searchParams.get('schema')!
  const { rows: [{ jobs, transactions }] } = await pool(t).query(`SELECT count(*)::int AS jobs, count(DISTINCT xid)::int AS transactions FROM "${schema}".job`)
  // The first of a turn may go by itself; what a busy machine divides is not counted on.
  assert.ok(jobs === 501 && transactions < 100, `${jobs} jobs in ${transactions} transactions`)
})

test('a schema that is undefined is that of the store', async () => {
  const elsewhere = new Windlass('postgres://nobody@127.0.0.1:1/nowhere?schema=jobs')
  const texts: string[] = []
  await elsewhere.enqueueIn({ query: async (text: string) => { texts.push(text); return { rows: [{ id: 7 }] } } }, defineJob('any'), {}, { schema: undefined })
  assert.match(texts[0]!, /"jobs"\.enqueue_many/)
  await elsewhere.close()
})
