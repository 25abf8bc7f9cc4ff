// What newcomers write that cannot be, and no compiler stops in JavaScript: each is refused, and told what to write instead.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineJob, InvalidArgs, InvalidOption, retry, schedule, Windlass, type Job } from 'windlass'
import { enqueueSql } from 'windlass/sql'
import { perform } from 'windlass/testing'
import { ended, onSqlite, started } from './support.js'

const any = defineJob<unknown>('any')

/** As of many libraries: JSON is given what it has. */
class Document {
  constructor (readonly has: unknown) {}
  toJSON (): unknown { return this.has }
}

/** Bytes with a JSON form of their own. */
class Hash extends Uint8Array { toJSON (): string { return 'ab' } }

onSqlite('what JSON would drop or empty without a word is refused in args', async ({ windlass }) => {
  const circular: Record<string, unknown> = {}
  circular.self = circular
  for (const [args, words] of [
    [new Map([[1, 2]]), /^a Map in the args of kind "any" has no JSON form: write Object.fromEntries\(map\)$/],
    [{ ids: new Set([1]) }, /a Set in .*, at ids, has no JSON form: write \[...set\]/],
    [[{ to: Promise.resolve('a') }], /a Promise in .*, at to, .* await it first/],
    [{ error: new TypeError('x') }, /an Error in .* write its message/],
    [{ keys: new Map().keys() }, /an iterator in .*, at keys, has no JSON form: write an array/], [{ all: (function * () { yield 1 })() }, /an iterator/], [{ answer: new Response('a') }, /a Response in .* await response.json/],
    [{ like: /x/ }, /a RegExp/], [new WeakMap(), /a WeakMap/],
    [{ form: new FormData() }, /a FormData in .* write Object.fromEntries\(form\)/], [new Headers({ a: 'b' }), /a Headers/], [{ of: new ArrayBuffer(2) }, /an ArrayBuffer/],
    [{ image: new Uint8Array(2) }, /a Uint8Array in .*, at image, has no JSON form: write Buffer.from\(bytes\).toString\('base64'\)/], [new Float32Array(1), /a Float32Array/],
    [{ image: Buffer.from('x') }, /a Buffer in .*, at image, has no JSON form: write Buffer.from\(bytes\).toString\('base64'\)/], [Buffer.alloc(0), /^a Buffer in the args of kind "any" has no JSON form/],
    [{ doc: new Document({ pages: [Buffer.from('x')] }) }, /a Buffer in .*, at doc.pages, has/], [new Document(new Uint8Array(1)), /a Uint8Array/], [new Document({ of: new Map() }), /a Map in .*, at of,/], [new Document({ n: NaN }), /NaN in .*, at n,/],
    [{ at: [new Date('no date')] }, /an invalid Date in .*, at at, has no JSON form/],
    [{ n: NaN }, /NaN in .*, at n, has no JSON form: write it as a string or null/], [[-Infinity], /-Infinity in/],
    [{ n: 1n }, /a BigInt in the args of kind "any" has no JSON form: write String\(value\), or Number\(value\) where it is below 2 \*\* 53/], [circular, /circular/], [() => 1, /it is function/], [Symbol('x'), /it is symbol/],
    ['\ud800', /half of a surrogate pair/], [{ '\udc00': 1 }, /half of a surrogate pair/],
  ] as Array<[unknown, RegExp]>) await assert.rejects(windlass.enqueue(any, args), { name: 'InvalidArgs', message: words })
  assert.deepEqual((await windlass.jobs()).jobs, [])
  const kept = [new Hash(2), { type: 'Buffer', data: [1] }, new Document({ none: {} }), new Document(new Document({})), new Date(0), new URL('http://a/'), { at: undefined }, {}, { empty: {}, none: [] }, 2 ** 53 + 2, { __proto__: null, a: 1 }, JSON.parse('{"__proto__":{}}')]
  const ids = await windlass.enqueueMany(any, kept)
  assert.deepEqual(await Promise.all(ids.map(async id => JSON.stringify(await windlass.args(id)))), kept.map(each => JSON.stringify(each)))
  await assert.rejects(windlass.edit(ids[0]!, { args: new Set([1]) }), InvalidArgs)
  await assert.rejects(windlass.schedules.put([schedule({ name: 'x', cron: '@daily', job: any, args: [new Map()] })]), /a Map in the args of schedule "x" has no JSON form/)
})

onSqlite('nor is it in meta, checkpoints and results', async ({ windlass }, t) => {
  await assert.rejects(windlass.enqueue(any, 1, { meta: { ids: new Set([1]) } }), { name: 'InvalidOption', message: /^a Set in meta, at ids, has no JSON form/ })
  assert.throws(() => enqueueSql(any, 1, { meta: { of: new Map() } }), /a Map in meta/)
  await assert.rejects(perform(any, () => {}, 1, { checkpoint: new Set() }), /a Set in the checkpoint/)
  const values: unknown[] = [new Map([[1, 2]]), { image: Buffer.from('x') }, [Promise.resolve(1)]]
  const refused: string[] = []
  await started(t, windlass.worker({ queues: { default: 1 } }).handle(any, async (nth, job) => {
    await job.checkpoint(values[Number(nth)]).catch(error => refused.push(error.message))
    return values[Number(nth)]
  }))
  const ids = await windlass.enqueueMany(any, [0, 1, 2])
  for (const [nth, words] of [/a Map in the result has no JSON form/, /a Buffer in the result, at image,/, /a Promise in the result/].entries()) {
    const job = await ended(windlass, ids[nth]!)
    assert.deepEqual([job.state, job.result], ['discarded', null])
    assert.match(job.reason!, words)
    assert.match(refused[nth]!, new RegExp(words.source.replace('result', 'checkpoint')))
  }
})

onSqlite('what JSON would drop is refused in args to look for, which would be those of more jobs', async ({ windlass }) => {
  const ids = await windlass.enqueueMany(any, [{ user: { id: 1 } }, { user: { id: 2 } }])
  const id = undefined as number | undefined
  for (const [args, words] of [
    [{ user: { id } }, /^undefined in the args that are looked for, at user.id, has no JSON form: name a value, or leave its field out$/], [{ user: { id: 1 }, kind: undefined }, /^undefined in .*, at kind,/],
    [{ user: new Map([['id', 2]]) }, /^a Map in .*, at user,/], [{ user: Promise.resolve({ id: 2 }) }, /await it first/], [{ user: () => 1 }, /^a function in/], [{ user: { id: NaN } }, /NaN/],
  ] as Array<[Record<string, unknown>, RegExp]>) {
    for (const call of [() => windlass.delete({ args }), () => windlass.edit({ args }, { priority: 1 }), () => windlass.jobs({ args })]) await assert.rejects(call(), { name: 'InvalidOption', message: words })
  }
  assert.deepEqual(await windlass.delete({ args: { user: { id: 2 } } }).then(({ done }) => done), 1)
  assert.deepEqual((await windlass.jobs({ args: { user: {} } })).jobs.map(job => job.id), [ids[0]])
})

const odd = (value: unknown) => value as never

onSqlite('what a handler says is a text, and progress a number', async ({ windlass }, t) => {
  const says: Array<(job: Job) => void> = [
    job => job.log(odd(5)), job => job.log(odd(new Error('x'))), job => job.log(odd(undefined)), job => job.progress(odd('50')), job => job.progress(50, odd(5)),
  ]
  const refused: string[] = []
  const speak = (args: unknown, job: Job) => { try { says[Number(args)]!(job) } catch (error) { refused.push(String(error)) } }
  await started(t, windlass.worker({ queues: { default: 1 } }).handle(any, speak))
  for (const id of await windlass.enqueueMany(any, says.map((_, nth) => nth))) assert.equal((await ended(windlass, id)).state, 'completed')
  const words = [/^InvalidOption: log takes a text, .* got 5$/, /got an object$/, /got undefined$/, /^InvalidOption: progress takes a number of per cent, got "50"$/, /^InvalidOption: the note of a progress is a text, got 5$/]
  for (const [nth, each] of words.entries()) assert.match(refused[nth]!, each)
  await assert.rejects(perform(any, (_, job) => job.log(odd(5)), 1), /log takes a text/)
})

onSqlite('a typo in options is refused by its name', async ({ windlass }) => {
  const id = await windlass.enqueue(any, 1)
  await windlass.limits.set('default', { concurrency: 3 })
  for (const [call, words] of [
    [() => windlass.queue(odd(undefined)), /queue takes the name of a queue, got undefined; queues\(\) lists all/],
    [() => defineJob('a', odd({ maxAttempt: 3 })), /"maxAttempt" is no option of a job of kind "a"; options are .*maxAttempts/],
    [() => windlass.enqueue(any, 1, odd({ prioritty: 1 })), /"prioritty" is no option of a job of kind "any"/],
    [() => windlass.enqueue(any, 1, { retryPolicy: odd({ bas: 1 }) }), /"bas" is no option of a retry policy; options are backoff, base/],
    [() => windlass.enqueue(any, 1, { unique: odd({ key: 'a', util: 'started' }) }), /"util" is no option of unique; options are key, .*until/],
    [() => windlass.limits.set('default', odd({ concurency: 1 })), /"concurency" is no option of a queue's limits; options are concurrency, rate/],
    [() => windlass.limits.set('default', { rate: odd({ count: 1, period: '1s', brust: 1 }) }), /"brust" is no option of a rate/],
    [() => windlass.limits.setKeys('default', odd({ wieght: 1 })), /"wieght" is no option of a key's limit/],
    [() => windlass.edit(id, odd({ dely: '5m' })), /"dely" is no option of an edit; options are now, delay/],
    [() => windlass.schedules.put([odd({ name: 'x', cron: '@daily', job: any, zon: 'UTC' })]), /"zon" is no option of a schedule; options are name, .*zone/],
    [() => windlass.configure(odd({ retntion: '1d' })), /"retntion" is no option of the settings; options are retention, deadRetention/],
    [() => windlass.configure(odd('1d')), /the options of the settings are an object with retention, .*; got "1d"/],
    [() => windlass.setRetention([odd({ outcome: 'completed', aeg: '1d' })]), /"aeg" is no option of a retention rule; options are queue, outcome, age, count/],
    [() => windlass.enqueue(any, 1, odd({ idempotencykey: 'a' })), /options are .*meta, idempotencyKey/],
    [() => retry(odd({ aftr: '1h' })), /"aftr" is no option of retry; options are after, error/],
    [() => windlass.enqueue(any, 1, { unique: odd({ key: null }) }), /unique.key is null, by which nothing is unique/],
    [() => windlass.enqueueUnique(any, 1, { unique: odd({ fields: null }) }), /unique.fields is null/],
    ...['queue', 'key', 'priority', 'maxAttempts', 'retryPolicy', 'meta', 'cost', 'tags', 'encrypted', 'delay'].map(name =>
      [() => windlass.enqueue(any, 1, odd({ [name]: null })), new RegExp(`^${name} of a job of kind "any" is null: leave it out`)] as const),
    [() => windlass.enqueue(any, 1, { unique: odd(null) }), /the options of unique are an object with key, .*; got null/],
    [() => windlass.enqueue(any, 1, { idempotencyKey: odd(null) }), /idempotencyKey is null: leave it out/],
    [() => windlass.enqueueMany(any, [1], { idempotencyKey: '\ud800' }), /half of a surrogate pair in idempotencyKey/],
    [() => enqueueSql(any, 1, { idempotencyKey: odd(null) }), /idempotencyKey is null/],
    [() => enqueueSql(any, 1, { unique: odd({ key: null }) }), /unique.key is null/],
    [() => windlass.worker({ queues: { a: 1 } }).handleBatch(any, odd({ maxSize: 5, waits: '1s' }), () => {}), /"waits" is no option of handleBatch; options are maxSize, wait/],
    [() => windlass.worker({ queues: { a: 1 } }).handleBatch(any, odd({}), () => {}), /maxSize of the handler of "any" must be 1 to 10000, got undefined/],
    [() => windlass.worker({ queues: { a: 1 } }).handleInThreads(any, 'file:///a.js', odd(undefined)), /the options of handleInThreads are an object with threads; got undefined/],
    [() => retry(odd('later')), /the options of retry are an object with after, error; got "later"/],
  ] as Array<[() => unknown, RegExp]>) await assert.rejects(async () => call(), { name: 'InvalidOption', message: words })
  assert.equal((await windlass.queue('default'))!.limits!.concurrency, 3)
  assert.equal((await windlass.job(id))!.state, 'available')
})

onSqlite('what is of the wrong type is told what to be', async ({ windlass }) => {
  const worker = (queues: unknown) => windlass.worker({ queues: odd(queues) })
  for (const [call, words] of [
    [() => windlass.enqueue(odd('mail.send'), odd(1)), /a job that defineJob made, such as defineJob\("mail.send"\), got "mail.send"/],
    [() => windlass.enqueueMany(odd(undefined), odd([1])), /such as defineJob\('mail.send'\), got undefined/],
    [() => windlass.enqueueUnique(odd('a'), odd(1)), /such as defineJob\("a"\)/],
    [() => windlass.schedules.put([odd({ name: 'x', cron: '@daily', job: 'a' })]), /such as defineJob\("a"\)/],
    [() => windlass.schedules.put(odd(schedule({ name: 'x', cron: '@daily', job: any, args: 1 }))), /put takes an array of schedules, got an object/],
    [() => windlass.cancel(odd(undefined)), /cancel takes the id of a job, an array of ids, or a filter such as { queue: 'mail' }; got undefined/],
    [() => windlass.retry(odd('17')), /retry takes the id of a job, .* got "17"/],
    [() => windlass.delete({ queue: odd(null), state: 'discarded' }), /^queue is null, without which more jobs are selected: leave it out where that is meant$/], [() => windlass.cancel({ ids: odd(null), kind: 'any' }), /^ids is null/],
    [() => windlass.appendAudit(odd({})), /appendAudit takes an array of entries, got an object/],
    [() => windlass.wait(odd(1n), '1s'), /a BigInt in what is asked for has no JSON form: .*Number\(value\)/],
    [() => windlass.setRetention(odd({ outcome: 'completed' })), /setRetention takes an array of rules, got an object/],
    [() => windlass.audit({ since: odd('yesterday') }), /since must be a valid Date, got yesterday/], [() => windlass.audit({ since: new Date('no date') }), /since must be a valid Date/],
    [() => windlass.job(odd('1')), /id: invalid type: string "1", expected a whole number$/],
    [() => windlass.enqueue(any, 1, { queue: odd(5) }), /queue: invalid type: integer `5`, expected a string$/],
    [() => windlass.jobs({ state: odd('runing') }), /state: unknown variant `runing`, expected one of `scheduled`/],
    ...['default', ['default'], { default: '5' }, { default: 1.5 }, {}].map(queues => [() => worker(queues), /worker\({ queues: { default: 10 } }\)/] as const),
    [() => windlass.worker({ queues: { default: 1 }, onError: odd('log') }), /onError must be a function, got "log"/],
    [() => windlass.worker({ queues: { default: 1 }, name: odd(5) }).handle(any, () => {}).start(), /the worker's options: name: invalid type: integer `5`, expected a string/],
  ] as Array<[() => unknown, RegExp]>) await assert.rejects(async () => call(), { name: 'InvalidOption', message: words })
  assert.equal(typeof await windlass.enqueue(any, 1, odd(null)), 'number')
})

test('a URL that names no store says which do', async () => {
  for (const [url, words] of [
    ['postgresql+asyncpg://me:secret@host/shop', /leave out \+asyncpg: Windlass brings its own driver/], ['mysql://me@host/shop', /use sqlite:FILE or postgres:\/\/user@host\/database/],
    ['jobs.db', /use sqlite:FILE/], ['sqlite::memory:', /name a file/], ['sqlite:/none/of/these/jobs.db', /create \/none\/of\/these first/], ['sqlite:jobs.db?synchronus=off', /unknown parameter/],
    ['sqlite:///jobs.db', /write sqlite:jobs.db for one in this folder, or sqlite:\/jobs.db/],
  ] as Array<[string, RegExp]>) {
    await assert.rejects(new Windlass(url).queues(), (error: Error) => error instanceof InvalidOption && words.test(error.message) && !error.message.includes('secret'))
  }
  assert.throws(() => new Windlass(odd(undefined)), /name a store, such as/)
})
