import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { inspect } from 'node:util'
import pg from 'pg'
import { defineJob, InvalidOption, Undecryptable, Windlass, type StandardSchema, type WindlassOptions } from 'windlass'
import { enqueueSql } from 'windlass/sql'
import { ended, onBoth, onPostgres, onSqlite, started, type Store } from './support.js'

const KEY = `k1:${Buffer.alloc(32, 7).toString('base64')}`
const SECRET = 'C01X00T47'
const open = defineJob<{ passport: string }>('account.open', { encrypted: true, retryPolicy: { backoff: 'fixed', base: '1ms' } })
const quiet = { queues: { default: 5 }, onError: () => {} }

function withKeys ({ url }: Store, t: TestContext, options: WindlassOptions = { keys: KEY }): Windlass {
  const windlass = new Windlass(url, options)
  t.after(() => windlass.close())
  return windlass
}

onBoth('encrypted args are open to the handler alone, and so are results and checkpoints', async (store, t) => {
  const keyed = withKeys(store, t)
  const seen: unknown[] = []
  await started(t, keyed.worker(quiet).handle(open, async ({ passport }, job) => {
    seen.push(passport, JSON.parse(job.argsJson), await job.lastCheckpoint())
    await job.checkpoint({ passport })
    if (job.attempt === 1) throw new Error('once more')
    return `opened with ${passport}`
  }))
  const id = await keyed.enqueue(open, { passport: SECRET })
  const stored = await ended(store.windlass, id)
  assert.equal(stored.state, 'completed')
  assert.doesNotMatch(inspect(stored, { depth: 9 }), new RegExp(SECRET))
  assert.equal(Object.keys(stored.args as object)[0], 'windlass.enc')
  assert.deepEqual(seen, [SECRET, { passport: SECRET }, null, SECRET, { passport: SECRET }, { passport: SECRET }])
  assert.deepEqual([await keyed.args(id), await keyed.result(id), await keyed.checkpoint(id)], [{ passport: SECRET }, `opened with ${SECRET}`, { passport: SECRET }])
  await assert.rejects(store.windlass.args(id), Undecryptable)
  assert.equal(await keyed.args(4711), null)
})

onBoth('nothing is stored in plain by mistake', async (store, t) => {
  await assert.rejects(store.windlass.enqueue(open, { passport: SECRET }), /are encrypted, and this client has no keys; give it some by new Windlass\(url, { keys }\)/)
  await assert.rejects(store.windlass.enqueueMany(open, [{ passport: SECRET }]), InvalidOption)
  assert.throws(() => enqueueSql(open, { passport: SECRET }), /are encrypted, which plain SQL cannot do/)
  assert.deepEqual((await store.windlass.jobs()).jobs, [])
  // Who makes up a job without a key is refused by its handler.
  const worker = await started(t, withKeys(store, t).worker(quiet).handle(open, () => assert.fail('was run')))
  const plain = defineJob<unknown>('account.open', { maxAttempts: 1 })
  const job = await ended(store.windlass, await store.windlass.enqueue(plain, { passport: 'made up' }))
  assert.match(job.errors[0]!.error, /are encrypted, and this one's args are plain/)
  assert.equal(worker.stats().claimed, 1)
})

onSqlite('plain args from before a kind was encrypted are taken by who asks for them', async (store, t) => {
  const id = await store.windlass.enqueue(defineJob<unknown>('account.open'), { passport: 'plain' })
  await started(t, withKeys(store, t).worker({ ...quiet, acceptPlainArgs: true }).handle(open, ({ passport }) => passport))
  assert.equal((await ended(store.windlass, id)).state, 'completed')
  assert.equal(await withKeys(store, t).result(id), 'plain')
})

onSqlite('a job waits for a worker that has its key', async (store, t) => {
  const id = await withKeys(store, t).enqueue(open, { passport: SECRET })
  {
    const other = `k2:${Buffer.alloc(32, 9).toString('base64')}`
    await using worker = withKeys(store, t, { keys: other }).worker(quiet).handle(open, () => assert.fail('was run'))
    await worker.start()
    await worker.untilIdle()
  }
  const waits = (await store.windlass.job(id))!
  assert.deepEqual([waits.state, waits.attempt], ['retryable', 0])
  await store.windlass.retry(id)
  await started(t, withKeys(store, t).worker(quiet).handle(open, () => {}))
  assert.equal((await ended(store.windlass, id)).state, 'completed')
})

onPostgres('encrypted jobs are enqueued in a transaction', async (store, t) => {
  const keyed = withKeys(store, t)
  const db = new pg.Client(store.url.split('?')[0])
  await db.connect()
  t.after(() => db.end())
  await db.query('begin')
  const ids = await keyed.enqueueManyIn(db, open, [{ passport: SECRET }, { passport: 'x' }], { tags: ['a'], delay: '1h', priority: 3 })
  const unique = await keyed.enqueueIn(db, open, { passport: SECRET }, { unique: { key: 'a' } })
  assert.equal(await keyed.enqueueIn(db, open, { passport: 'y' }, { unique: { key: 'a' } }), unique)
  await db.query('commit')
  assert.deepEqual(await Promise.all([...ids, unique].map(id => keyed.args(id))), [{ passport: SECRET }, { passport: 'x' }, { passport: SECRET }])
  const stored = (await store.windlass.job(ids[0]!))!
  assert.deepEqual([stored.tags, stored.priority, stored.state, JSON.stringify(stored).includes(SECRET)], [['a'], 3, 'scheduled', false])
  await assert.rejects(store.windlass.enqueueIn(db, open, { passport: SECRET }), InvalidOption)
})

test('keys that are none are refused, and shown nowhere', async () => {
  const secret = 'not-thirty-two-bytes'
  const windlass = new Windlass('sqlite:never-opened.db', { keys: `k1:${Buffer.from(secret).toString('base64')}` })
  await assert.rejects(windlass.queues(), (error: InvalidOption) => {
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), new RegExp(Buffer.from(secret).toString('base64')))
    return error instanceof InvalidOption && /key number 1/.test(error.message)
  })
  assert.equal(existsSync('never-opened.db'), false)
  assert.doesNotMatch(inspect(windlass, { depth: 9, showHidden: true }) + JSON.stringify(windlass), /k1:/)
  assert.throws(() => new Windlass('sqlite:x.db', { kyes: 'k1:x' } as never), /"kyes" is no option/)
})

onSqlite('why encrypted args do not fit shows nothing of them', async (store, t) => {
  // As the words of some schemas do: valibot's and arktype's.
  const shows: StandardSchema<{ passport: string }> = {
    '~standard': { version: 1, vendor: 'test', validate: value => ({ issues: [{ message: `got ${JSON.stringify(value)}`, path: ['passport'] }] }) },
  }
  const keyed = withKeys(store, t)
  const checked = defineJob('account.open', { args: shows, encrypted: true, maxAttempts: 1 })
  const errors: unknown[] = []
  await started(t, keyed.worker({ queues: { default: 1 }, onError: error => errors.push(error) }).handle(checked, () => assert.fail('was run')))
  const job = await ended(keyed, await keyed.enqueue(open, { passport: SECRET }, { maxAttempts: 1 }))
  assert.match(job.errors[0]!.error, /do not fit its schema: passport: it does not fit/)
  assert.doesNotMatch(inspect([job, errors], { depth: 9 }), new RegExp(SECRET))
})
