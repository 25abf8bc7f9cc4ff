import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { test } from 'node:test'
import {
  defineJob, InvalidArgs, InvalidName, InvalidOption, NotFound, PermissionDenied, schedule, StorageFull, UniqueConflict, Unsupported, Windlass, WindlassError, type EnqueueOptions, type JobDefinition,
} from 'windlass'
import { direct } from '#internal/native'
import { enqueueSql } from 'windlass/sql'
import { z } from 'zod'
import { onBoth, onSqlite } from './support.js'

const mail = defineJob('mail.send', { args: z.object({ to: z.email() }), queue: 'mail', maxAttempts: 5, priority: 3 })
const plain = defineJob<{ n: number }>('plain')

onBoth('a job is enqueued with what its definition and the call say', async ({ windlass }) => {
  const at = new Date('2031-01-02T03:04:05Z')
  const id = await windlass.enqueue(mail, { to: 'a@example.com' }, {
    priority: -5, scheduledAt: at, key: 'acme', meta: { request: 'r1' }, tags: ['x', 'y'], timeout: '1m', cost: 2,
    retryPolicy: { backoff: 'linear', base: '10s' }, expiresAt: new Date('2032-01-01T00:00:00Z'),
  })
  const job = (await windlass.job(id))!
  assert.deepEqual([job.kind, job.queue, job.priority, job.maxAttempts, job.state], ['mail.send', 'mail', -5, 5, 'scheduled'])
  assert.deepEqual([job.args, job.key, job.meta, job.tags], [{ to: 'a@example.com' }, 'acme', { request: 'r1' }, ['x', 'y']])
  assert.deepEqual([job.scheduledAt, job.timeoutMs, job.cost, job.retryPolicy!.backoff, job.retryPolicy!.baseMs], [at, 60_000, 2, 'linear', 10_000])
  assert.deepEqual(job.expiresAt, new Date('2032-01-01T00:00:00Z'))
  assert.equal(await windlass.job(4711), null)
  const later = (await windlass.job(await windlass.enqueue(plain, { n: 1 }, { delay: '1h' })))!
  assert.equal(later.state, 'scheduled')
  assert.ok(later.scheduledAt!.getTime() - later.enqueuedAt.getTime() > 3_500_000)
})

onBoth('many jobs are enqueued in one call, all or none', async ({ windlass }) => {
  const ids = await windlass.enqueueMany(plain, Array.from({ length: 1_000 }, (_, n) => ({ n })))
  assert.equal(new Set(ids).size, 1_000)
  assert.deepEqual((await windlass.job(ids[7]!))!.args, { n: 7 })
  assert.deepEqual(await windlass.enqueueMany(plain, []), [])
  await assert.rejects(windlass.enqueueMany(mail, [{ to: 'a@example.com' }, { to: 'nobody' }]), /^InvalidArgs: job 1 of 2: args of kind "mail.send" .* nothing was enqueued$/)
  await assert.rejects(windlass.enqueueMany(plain, { n: 1 } as never), /takes an array/)
  assert.equal((await windlass.jobs({ kind: 'mail.send' })).jobs.length, 0)
})

onBoth('what is stored is what was handed in, whatever its caller makes of it next', async ({ windlass }) => {
  const [args, options] = [[{ n: 1 }, { n: 2 }], { key: 'a' }]
  const many = windlass.enqueueMany(plain, args, options)
  args.pop()
  Object.assign(args[0]!, { n: 9 })
  options.key = 'b'
  assert.equal((await many).length, 2)
  const mails = [{ to: 'a@example.com' }]
  const one = windlass.enqueueMany(mail, mails) // which has a schema
  mails[0]!.to = 'b@example.com'
  await one
  const stored = (await windlass.jobs()).jobs.map(({ args, key }) => JSON.stringify([args, key])).sort()
  assert.deepEqual(stored, ['[{"n":1},"a"]', '[{"n":2},"a"]', '[{"to":"a@example.com"},null]'])
})

onBoth('an idempotency key makes an enqueue repeatable', async ({ windlass }) => {
  const once = () => windlass.enqueue(plain, { n: 1 }, { idempotencyKey: 'welcome/7' })
  assert.equal(await once(), await once())
  const many = () => windlass.enqueueMany(plain, [{ n: 1 }, { n: 2 }], { idempotencyKey: 'batch' })
  assert.deepEqual(await many(), await many())
  assert.equal((await windlass.jobs()).jobs.length, 3)
})

onBoth('a unique job keeps, replaces or refuses', async ({ windlass }) => {
  const index = defineJob<{ user: number, change?: string }>('index', { unique: { fields: ['user'] } })
  const first = await windlass.enqueueUnique(index, { user: 7 })
  assert.deepEqual([first.conflict, await windlass.enqueueUnique(index, { user: 7 })], [null, { id: first.id, conflict: 'kept' }])
  const replaced = await windlass.enqueueUnique(index, { user: 7, change: 'x' }, { unique: { fields: ['user'], onConflict: 'replace' } })
  assert.deepEqual([replaced.conflict, (await windlass.job(replaced.id))!.args], ['replaced', { user: 7, change: 'x' }])
  await assert.rejects(windlass.enqueueUnique(index, { user: 7 }, { unique: { fields: ['user'], onConflict: 'error' } }), UniqueConflict)
  await assert.rejects(windlass.enqueueUnique(plain, { n: 1 }), /what makes a job of kind "plain" unique/)
})

onSqlite('what does not go together in a unique job is said by the names that it is written with', async ({ windlass }) => {
  for (const [unique, words, options] of [
    [{}, /say what makes it unique: unique.key, unique.args or unique.fields$/], [{ key: 'a', fields: ['n'] }, /unique.key, unique.args and unique.fields exclude each other$/],
    [{ args: true, until: 'finished', for: '1h' }, /^InvalidOption: a unique job of kind "plain": unique.until and unique.for exclude each other$/],
    [{ args: true, maxWait: '1m' }, /unique.maxWait needs unique.onConflict 'replace'$/],
    [{ args: true, onConflict: 'extend' }, /unique.onConflict 'extend' needs unique.for/],
  ] as Array<[EnqueueOptions['unique'], RegExp, EnqueueOptions?]>) {
    await assert.rejects(windlass.enqueueUnique(plain, { n: 1 }, { ...options, unique }), words)
    assert.throws(() => enqueueSql(plain, { n: 1 }, { ...options, unique }), words)
  }
  assert.throws(() => enqueueSql(plain, { n: 1 }, { unique: { args: true }, timeout: '1m' }), /by plain SQL takes no timeout; windlass.enqueueIn does/)
  assert.throws(() => enqueueSql(plain, { n: 1 }, { unique: { args: true }, expiresIn: '1h' }), /by plain SQL takes no expiresIn; windlass.enqueueIn does/)
  for (const unique of [
    { args: true, for: '1h', onConflict: 'extend' }, { key: 'a', until: 'started', onConflict: 'replace', maxWait: '1m' }, { fields: ['n'], in: 'queue' },
  ] as const) assert.equal((await windlass.enqueueUnique(plain, { n: 1 }, { unique, expiresAt: new Date('2032-01-01T00:00:00Z') })).conflict, null)
  const soon = await windlass.enqueueUnique(plain, { n: 1 }, { unique: { key: 'expires in' }, expiresIn: '1h' })
  assert.ok((await windlass.job(soon.id))?.expiresAt instanceof Date)
})

onBoth('a unique job may come again after its end', async ({ windlass }) => {
  const index = defineJob<{ user: number }>('index', { unique: { args: true } })
  const first = await windlass.enqueueUnique(index, { user: 7 })
  assert.equal(await windlass.cancel(first.id), 'cancelled')
  const second = await windlass.enqueueUnique(index, { user: 7 })
  assert.deepEqual([second.conflict, second.id === first.id], [null, false])
})

onBoth('jobs are listed, cancelled, retried, edited and deleted', async ({ windlass }) => {
  const ids = await windlass.enqueueMany(plain, [{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }])
  const page = await windlass.jobs({ kind: 'plain', state: 'available', limit: 3 })
  assert.ok(page.jobs.length <= 3 && page.next !== null)
  const [a, b, c] = ids as [number, number, number, number]
  assert.equal(await windlass.cancel(a), 'cancelled')
  assert.deepEqual(await windlass.cancel([a, 4711]), ['finished', 'not_found'])
  assert.equal((await windlass.job(a))!.state, 'cancelled')
  assert.equal(await windlass.retry(a), 'retried')
  assert.equal(await windlass.edit(b, { delay: '1h', priority: 9, args: { n: 99 } }), 'edited')
  const edited = (await windlass.job(b))!
  assert.deepEqual([edited.state, edited.priority, edited.args], ['scheduled', 9, { n: 99 }])
  assert.equal(await windlass.edit(b, { now: true, args: null }), 'edited') // a value, as when a job is enqueued
  assert.equal((await windlass.job(b))!.args, null)
  assert.equal(await windlass.delete(c), 'deleted')
  assert.equal(await windlass.job(c), null)
  const would = await windlass.cancel({ kind: 'plain', dryRun: true })
  assert.deepEqual([would.selected, would.done, would.dryRun], [3, 3, true])
  assert.equal((await windlass.cancel({ kind: 'plain', atMost: 1 })).done, 1)
  assert.equal((await windlass.cancel({ everything: true })).done, 2)
  assert.equal((await windlass.retry({ state: 'cancelled' })).done, 3)
  assert.equal((await windlass.edit({ kind: 'plain' }, { priority: 1 })).done, 3)
  assert.equal((await windlass.delete({ kind: 'plain' })).done, 3)
  await assert.rejects(windlass.cancel({}), /name either ids, or a filter/)
  await assert.rejects(windlass.edit(a, { args: NaN }), /NaN in the args/)
  // What JSON would make null of is no missing bound.
  const still = await windlass.enqueue(mail, { to: 'd@example.com' })
  for (const refused of [
    windlass.delete({ everything: true, atMost: NaN }), windlass.cancel({ everything: true, perSecond: Infinity }), windlass.delete({ args: { to: NaN } }),
    windlass.limits.set('mail', { concurrency: NaN }), windlass.enqueue(plain, { n: 1 }, { maxAttempts: NaN }), windlass.enqueue(plain, { n: 1 }, { meta: { id: 1n } }),
  ]) await assert.rejects(refused, { name: 'InvalidOption' })
  assert.equal((await windlass.job(still))!.state, 'available')
})

onBoth('many jobs are named by their ids', async ({ windlass }) => {
  const ids = await windlass.enqueueMany(plain, [{ n: 0 }, { n: 1 }, { n: 2 }])
  await windlass.cancel(ids[0]!)
  const would = await windlass.cancel({ ids: [...ids, 4711], dryRun: true })
  assert.deepEqual([would.selected, would.done, would.left, would.dryRun], [4, 2, 2, true])
  assert.equal((await windlass.edit({ ids, atMost: 2 }, { priority: 7 })).done, 2)
  assert.equal((await windlass.retry({ ids })).done, 1)
  assert.equal((await windlass.delete({ ids, perSecond: 1_000 })).done, 3)
  assert.equal((await windlass.delete({ ids: [] })).selected, 0)
  for (const more of [{ queue: 'mail' }, { everything: true }]) await assert.rejects(windlass.delete({ ids, ...more }), /ids name the jobs by themselves/)
  await assert.rejects(windlass.delete({ ids: ['7' as never] }), /ids: invalid type/)
  const kept = await windlass.enqueue(plain, { n: 3 })
  for (const op of ['cancel', 'delete'] as const) await assert.rejects((windlass[op] as Function)([kept], { dryRun: true }), /takes its options together with the ids: { ids, dryRun: true }/)
  assert.equal((await windlass.job(kept))!.state, 'available')
})

onBoth('queues are paused, limited, and their keys, too', async ({ windlass }) => {
  await windlass.enqueue(mail, { to: 'a@example.com' })
  await windlass.pause('mail')
  assert.equal((await windlass.queues()).find(({ name }) => name === 'mail')!.paused, true)
  await windlass.resume('mail')
  await windlass.limits.set('mail', { concurrency: 5, rate: { count: 100, period: '1m', burst: 10 } })
  const [queue] = (await windlass.queues()).filter(({ name }) => name === 'mail')
  assert.deepEqual([queue!.paused, queue!.limits], [false, { concurrency: 5, rate: { count: 100, periodMs: 60_000, burst: 10 } }])
  assert.equal(await windlass.limits.keys('mail'), null)
  await windlass.limits.setKeys('mail', { concurrency: 2 })
  await windlass.limits.setKey('mail', 'big_tenant', { weight: 3, serial: true, rate: { count: 5, period: '2s' } })
  const keys = (await windlass.limits.keys('mail'))!
  assert.equal(keys.default.concurrency, 2)
  assert.deepEqual(keys.named.big_tenant, { weight: 3, serial: true, rate: { count: 5, periodMs: 2_000 } })
  await windlass.limits.setKeys('mail', { rate: { count: 100, period: '1m' } })
  assert.deepEqual((await windlass.limits.keys('mail'))!.default, { weight: 1, rate: { count: 100, periodMs: 60_000 } })
  await assert.rejects(windlass.limits.setKeys('mail', { rate: { count: 0, period: '1m' } }), /1 to 1000000000, got 0/)
  await windlass.limits.removeKey('mail', 'big_tenant')
  assert.deepEqual((await windlass.limits.keys('mail'))!.named, {})
  await windlass.limits.removeKeys('mail')
  assert.equal(await windlass.limits.keys('mail'), null)
  assert.ok((await windlass.status()).schemaVersion > 0)
  assert.deepEqual((await windlass.queues({ search: 'MAI', limit: 1 })).map(({ name }) => name), ['mail'])
  assert.deepEqual([(await windlass.queue('mail'))!.paused, await windlass.queue('unknown')], [false, undefined])
  await assert.rejects(windlass.pause('unknown'), NotFound)
  await assert.rejects(windlass.drainWorker(4711), NotFound)
  await assert.rejects(windlass.limits.set('mail', { concurrency: 0 }), /1 to 1000000, got 0/)
})

onBoth('schedules are declared by a file', async ({ windlass }, t) => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'schedules.toml')
  const entry = (name: string) => `[[schedule]]\nname = "${name}"\ncron = "@daily"\nkind = "plain"\nargs = { n = 7 }\n`
  writeFileSync(file, `source = "shop"\n${entry('a')}${entry('b')}`)
  assert.deepEqual(await windlass.schedules.putFile(file), { names: ['a', 'b'], replies: ['created', 'created'], removed: [] })
  writeFileSync(file, `source = "shop"\n${entry('b')}`)
  assert.deepEqual(await windlass.schedules.putFile(pathToFileURL(file), { prune: true }), { names: ['b'], replies: ['unchanged'], removed: ['a'] })
  assert.deepEqual((await windlass.job(await windlass.schedules.run('b')))!.args, { n: 7 })
  writeFileSync(file, entry('c').replace('@daily', '61 * * * *'))
  await assert.rejects(windlass.schedules.putFile(file), /schedules.toml: line 1: schedule "c": the minute/)
  writeFileSync(file, entry('c'))
  await assert.rejects(windlass.schedules.putFile(file, { prune: true }), /prune needs to know whose schedules it has/)
  await assert.rejects(windlass.schedules.putFile(join(folder, 'another.toml')), { code: 'invalid_option', message: /cannot be read/ })
  await assert.rejects(windlass.schedules.putFile(7 as never), /takes the path of a TOML file, got 7/)
})

onBoth('schedules are declared, previewed, run, paused and removed', async ({ windlass }) => {
  const report = schedule({ name: 'report', cron: '30 6 * * MON-FRI', zone: 'Europe/Berlin', job: mail, args: { to: 'a@example.com' }, jitter: '1m', overlap: 'skip' })
  assert.deepEqual(await windlass.schedules.put([report], { source: 'app' }), { names: ['report'], replies: ['created'], removed: [] })
  assert.deepEqual((await windlass.schedules.put([report], { source: 'app' })).replies, ['unchanged'])
  const listed = (await windlass.schedules.list({ source: 'app' })).schedules
  assert.deepEqual([listed.length, listed[0]!.name, listed[0]!.paused], [1, 'report', false])
  const ticks = await windlass.schedules.preview(report, { after: new Date('2026-11-20T12:00:00Z'), count: 2 })
  assert.deepEqual(ticks, [new Date('2026-11-23T05:30:00Z'), new Date('2026-11-24T05:30:00Z')])
  assert.equal((await windlass.job(await windlass.schedules.run('report')))!.queue, 'mail')
  await windlass.schedules.pause('report')
  assert.equal((await windlass.schedules.get('report'))!.paused, true)
  await windlass.schedules.resume('report')
  assert.equal((await windlass.schedules.get('report'))!.paused, false)
  for (const options of [{ prune: true }, { source: '', prune: true }]) {
    await assert.rejects(windlass.schedules.put([], options), { code: 'invalid_option', message: /say which one: put\(schedules, \{ source: 'shop', prune: true \}\)/ })
  }
  assert.deepEqual((await windlass.schedules.put([], { source: 'app', prune: true })).removed, ['report'])
  assert.equal(await windlass.schedules.get('report'), null)
  await assert.rejects(windlass.schedules.put([schedule({ name: 'x', cron: 'soon', job: plain, args: { n: 1 } })]), WindlassError)
  await assert.rejects(windlass.schedules.remove('report'), NotFound)
  await assert.rejects(windlass.schedules.put([schedule({ name: 'x', cron: '@daily', job: mail, args: { to: 'nobody' } })]), InvalidArgs)
})

onSqlite('the jobs of a schedule carry its meta and expire', async ({ windlass }) => {
  const report = schedule({ name: 'report', cron: '@daily', job: plain, args: { n: 1 }, options: { key: 'acme', meta: { request: 'r1' }, expiresIn: '1h' } })
  await windlass.schedules.put([report])
  const job = (await windlass.job(await windlass.schedules.run('report')))!
  assert.deepEqual([job.key, job.meta], ['acme', { request: 'r1', 'windlass.schedule': 'report' }])
  assert.equal(job.expiresAt!.getTime() - job.enqueuedAt.getTime(), 3_600_000)
  const unique = schedule({ name: 'unique', cron: '@daily', job: defineJob<{ n: number }>('once', { unique: { args: true } }), args: { n: 1 } })
  await assert.rejects(windlass.schedules.put([unique]), /its job is unique; use the schedule's overlap policy/)
})

onSqlite('a job that is not there cannot be waited for', async ({ windlass }) => assert.rejects(windlass.wait(4711, '1s'), NotFound))

test('an error of the native part has the class of its code, and says how to migrate without the binary', () => {
  const failed = (code: string, message: string, ambiguous = false) => () => direct(() => { throw new Error(JSON.stringify({ code, message, ambiguous })) })
  assert.throws(failed('schema_missing', 'there is none; run `windlass migrate`, or check ?schema='),
    { name: 'SchemaMismatch', message: 'there is none; run `npx windlass --store URL migrate` or `await windlass.migrate()`, or check ?schema=' })
  assert.throws(failed('invalid_name', 'a b'), InvalidName)
  assert.throws(failed('permission_denied', 'no'), PermissionDenied)
  assert.throws(failed('storage_full', 'full'), (error: StorageFull) => error instanceof StorageFull && error.retryable && !error.ambiguous)
  assert.throws(failed('internal', 'the call panicked', true), (error: WindlassError) => error.ambiguous)
})

onSqlite('what a definition says is written once, however often it is enqueued', async ({ windlass }) => {
  let reads = 0
  const job = { ...defineJob<number>('counted'), get options () { reads++; return { queue: 'mail' } } } as JobDefinition<number>
  const ids = [await windlass.enqueue(job, 1), await windlass.enqueue(job, 2, {}), await windlass.enqueue(job, 3, { idempotencyKey: 'once' })]
  assert.equal(reads, 1)
  assert.equal(await windlass.enqueue(job, 3, { idempotencyKey: 'once' }), ids[2])
  assert.deepEqual((await windlass.jobs({ queue: 'mail' })).jobs.map(({ args }) => args).sort(), [1, 2, 3])
  await windlass.enqueue(job, 4, { priority: 7 })
  assert.deepEqual((await windlass.jobs({ queue: 'mail' })).jobs.map(({ priority }) => priority).sort(), [0, 0, 0, 7])
})

onSqlite('an option that is undefined is left out, and does not take back what the definition says', async ({ windlass }) => {
  const job = defineJob<number>('of-a-queue', { queue: 'mail', priority: 3, maxAttempts: 2 })
  const id = await windlass.enqueue(job, 1, { queue: undefined, priority: undefined, delay: undefined, maxAttempts: 4 })
  const { queue, priority, maxAttempts, state } = (await windlass.job(id))!
  assert.deepEqual([queue, priority, maxAttempts, state], ['mail', 3, 4, 'available'])
})

onSqlite('what cannot be enqueued is refused, and says what and why', async ({ windlass }) => {
  await assert.rejects(windlass.enqueue(mail, { to: 'nobody' }), (error: InvalidArgs) => {
    assert.ok(error instanceof InvalidArgs && error instanceof WindlassError)
    assert.deepEqual([error.code, error.retryable, error.ambiguous], ['invalid_args', false, false])
    assert.match(error.message, /^args of kind "mail.send" do not fit its schema: to: Invalid email/)
    assert.match(error.stack!, /client\.test/)
    return true
  })
  const any = defineJob<unknown>('any')
  for (const [args, words] of [
    [NaN, /NaN in the/], [{ a: [1, Infinity] }, /Infinity in the .* at a\[1\], has no JSON form/], [1n, /BigInt/], ['\ud800', /surrogate/], ['\0', /NUL/],
    [() => 1, /args of kind "any" .* function/], [Symbol('x'), /args of kind "any" .* symbol/], ['x'.repeat(2 << 20), /1048576/],
    [Array.from({ length: 65 }).reduce(args => [args], 1), /64 levels/],
  ] as Array<[unknown, RegExp]>) await assert.rejects(windlass.enqueue(any, args), words)
  const circle: { self?: unknown } = {}
  circle.self = circle
  await assert.rejects(windlass.enqueue(any, circle), /circular/)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { delai: '5m' } as never), /"delai" is no option .* delay/s)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { delay: 'soon' }), /delay must be .*got "soon"/)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { delay: -1 }), /got -1/)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { priority: 400 }), /400/)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { scheduledAt: new Date('x') }), /scheduledAt must be a valid Date/)
  await assert.rejects(windlass.enqueue(plain, { n: 1 }, { delay: 1, scheduledAt: new Date() }), InvalidOption)
  await assert.rejects(windlass.enqueue(defineJob('a b'), {}), InvalidName)
  await assert.rejects(windlass.enqueueIn({ query: async () => [] }, plain, { n: 1 }), Unsupported)
  assert.deepEqual((await windlass.jobs()).jobs, [])
})

onSqlite('a list of args with a hole is refused, and says where it is', async ({ windlass }) => {
  const any = defineJob<unknown>('any')
  const refused = { name: 'InvalidArgs', message: /^job 1 of 3: the array of args has a hole there; write \{\} for a job without args; nothing was enqueued$/ }
  await assert.rejects(windlass.enqueueMany(any, [{}, , {}]), refused)
  await assert.rejects(windlass.enqueueManyUnique(any, [{}, , {}], { unique: { args: true } }), refused)
  await assert.rejects(windlass.enqueueMany(any, new Array(3)), /^InvalidArgs: job 0 of 3/)
  assert.deepEqual((await windlass.jobs()).jobs, [])
  const [id] = await windlass.enqueueMany(any, Array.from({ length: 3 })) // each is undefined: left out
  assert.deepEqual((await windlass.job(id!))!.args, {})
})

onSqlite('args keep what JSON can say', async ({ windlass }) => {
  const any = defineJob<unknown>('any')
  for (const args of [null, 0, '', [], { __proto__x: 1, 'a\u2028b': '\ufeff', nested: { null: null } }, 'é\u0001', [[null]], 9007199254740991]) {
    assert.deepEqual((await windlass.job(await windlass.enqueue(any, args)))!.args, args)
  }
  const evil = JSON.parse('{"__proto__":{"polluted":true}}')
  const stored = (await windlass.job(await windlass.enqueue(any, evil)))!.args as object
  assert.deepEqual([Object.keys(stored), ({} as Record<string, unknown>).polluted], [['__proto__'], undefined])
  assert.deepEqual((await windlass.job(await windlass.enqueue(any, undefined)))!.args, {})
})

test('a password is in no error and in nothing that is printed', async () => {
  const url = 'postgres://me:s3cr3t@127.0.0.1:1/none'
  const windlass = new Windlass(url)
  assert.doesNotMatch(inspect(windlass, { depth: 9, showHidden: true }) + JSON.stringify(windlass) + String(windlass), /s3cr3t/)
  await assert.rejects(windlass.queues(), (error: WindlassError) => {
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }) + JSON.stringify(error), /s3cr3t/)
    return error.code === 'unavailable' && error.retryable
  })
  const broken = new Windlass('postgres://me:s3cr3t@[::/none?x=y')
  await assert.rejects(broken.queues(), (error: WindlassError) => {
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /s3cr3t/)
    return error instanceof InvalidOption
  })
  assert.throws(() => new Windlass(''), /name a store/)
  await windlass.close()
  await assert.rejects(windlass.queues(), /is closed/)
})
