// The golden files of conformance/vectors, as a TypeScript program meets them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as windlassPackage from 'windlass'
import { cancel, defineJob, discard, retry, schedule, snooze, WindlassError, type EnqueueOptions, type OnceOptions, type RetryPolicy, type Windlass } from 'windlass'
import { enqueueManySql } from 'windlass/sql'
import { errorOf } from '#internal/errors'
import { milliseconds } from '#internal/duration'
import { canonical } from '../conformance/canonical.js'
import { files, vectors } from '../conformance/vectors.js'
import { onSqlite, started } from './support.js'

const READ = ['args.json', 'durations.json', 'errors.json', 'options.json', 'outcomes.json', 'retry_policies.json', 'schedules.json', 'unique.json',
  'encryption.json'] // the core alone seals and opens: nothing to be read here

const any = defineJob<unknown>('any')

/** A list of a file; it has something in it. */
function list (file: string, name: string): any[] {
  const all = vectors(file)[name]
  assert.ok(all.length > 0, `${name} of ${file}`)
  return all
}

function refused (what: string, call: () => Promise<unknown>, { code, message }: { code: string, message?: string }) {
  return assert.rejects(call, (error: WindlassError) => {
    assert.deepEqual([error.code, message && error.message], [code, message], what)
    return error instanceof WindlassError
  }, what)
}

test('every file of the vectors is read', () => assert.deepEqual(files, READ.sort()))

onSqlite('args of the vectors are read as they were written', async ({ windlass }) => {
  for (const { text, what, ...expected } of list('args.json', 'accepted')) {
    const read = JSON.parse(text)
    assert.equal(canonical(read), expected.js ?? expected.canonical, what)
    const job = await windlass.job(await windlass.enqueue(any, read))
    assert.equal(canonical(job!.args), expected.js ?? expected.canonical, what)
  }
})

onSqlite('args of the vectors that no handler could read are refused', async ({ windlass }) => {
  for (const { text, what, code } of list('args.json', 'refused')) {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      continue // no value is written like that
    }
    await refused(what, () => windlass.enqueue(any, value), { code })
  }
  assert.deepEqual((await windlass.jobs()).jobs, [])
})

test('time spans of the vectors', () => {
  for (const { text, ms } of [...list('durations.json', 'texts'), ...list('durations.json', 'rounded')]) assert.equal(milliseconds(text, 'x'), ms, text)
  for (const text of list('durations.json', 'refused')) assert.throws(() => milliseconds(text, 'x'), { code: 'invalid_option' }, text)
})

test('errors of the vectors have their classes', () => {
  for (const { code, js, retryable, ambiguous } of list('errors.json', 'errors')) {
    const error = errorOf(code, 'words')
    assert.equal(error.constructor, (windlassPackage as Record<string, unknown>)[js], code)
    assert.deepEqual([error.code, error.retryable, error.ambiguous], [code, retryable, ambiguous])
  }
})

function policy (wire: any): RetryPolicy {
  return { backoff: wire.backoff, base: wire.base_ms, factor: wire.factor, max: wire.max_ms, jitter: wire.jitter }
}

/** The options by their names in TypeScript. */
function options (wire: any): OnceOptions {
  const date = (text?: string) => text === undefined ? undefined : new Date(text)
  const all = {
    queue: wire.queue, priority: wire.priority, maxAttempts: wire.max_attempts, delay: wire.delay_ms, scheduledAt: date(wire.scheduled_at),
    expiresAt: date(wire.expires_at), expiresIn: wire.expires_in_ms, timeout: wire.timeout_ms, key: wire.key, meta: wire.meta, tags: wire.tags,
    cost: wire.cost, idempotencyKey: wire.idempotency_key, retryPolicy: wire.retry_policy && policy(wire.retry_policy),
  } satisfies OnceOptions
  return all
}

async function enqueue (windlass: Windlass, wire: any) {
  return (await windlass.job(await windlass.enqueue(defineJob<object>(wire.kind ?? 'any'), {}, options(wire))))! as any
}

const camel = (name: string) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase())

function assertShows (record: any, expected: object, what: string): void {
  for (const [name, value] of Object.entries(expected)) {
    const shown = record[camel(name)]
    assert.deepEqual(shown, shown instanceof Date ? new Date(value) : value, `${name} of ${what}`)
  }
}

onSqlite('options of the vectors are kept', async ({ windlass }) => {
  for (const { what, options, record } of list('options.json', 'accepted')) assertShows(await enqueue(windlass, options), record, what)
})

onSqlite('wrong options of the vectors are refused in the same words', async ({ windlass }) => {
  for (const { what, options, ...expected } of list('options.json', 'refused')) await refused(what, () => enqueue(windlass, options), expected)
})

onSqlite('retry policies of the vectors are kept', async ({ windlass }) => {
  for (const { what, policy, stored } of list('retry_policies.json', 'policies')) {
    const { retryPolicy } = await enqueue(windlass, { retry_policy: policy })
    assertShows(retryPolicy, stored, what)
  }
})

onSqlite('what a handler says, as the vectors have it, is what becomes of its job', async ({ windlass }, t) => {
  const say = (said: any): unknown => {
    if ('fail' in said) throw new Error(said.fail)
    if ('retry' in said) throw retry({ error: said.retry, after: said.after_ms })
    if ('snooze_ms' in said) throw snooze(said.snooze_ms)
    return 'cancel' in said ? cancel(said.cancel) : 'discard' in said ? discard(said.discard) : said.complete
  }
  const outcomes = list('outcomes.json', 'outcomes')
  const nth = defineJob<number>('nth')
  const ids: number[] = []
  for (const [at, { policy: wire, max_attempts: maxAttempts }] of outcomes.entries()) {
    const options: EnqueueOptions = { maxAttempts, retryPolicy: policy(wire ?? {}) }
    ids.push(await windlass.enqueue(nth, at, options))
  }
  const worker = await started(t, windlass.worker({ queues: { default: 10 }, onError: () => {} }).handle(nth, at => say(outcomes[at].say)))
  await worker.untilIdle()
  const ended = Date.now()
  for (const [nth, { what, say, record, errors, waits_ms: waits }] of outcomes.entries()) {
    const job = (await windlass.job(ids[nth]!))!
    assertShows(job, record, what)
    const kept = job.errors.map(({ error }) => error)
    if ('fail' in say) assert.ok(kept.length === errors.length && kept.every((text, nth) => text.includes(errors[nth])), what) // with its stack
    else assert.deepEqual(kept, errors, what)
    if (waits === undefined) continue
    const waited = job.scheduledAt!.getTime() - ended
    assert.ok(waits - 60_000 <= waited && waited <= waits, `${what} waits ${waited} ms`)
  }
})

onSqlite('schedules of the vectors tick as they say', async ({ windlass }) => {
  const of = ({ cron, zone }: { cron: string, zone: string }) => schedule({ name: 's', cron, zone, job: any })
  for (const vector of list('schedules.json', 'ticks')) {
    const ticks = await windlass.schedules.preview(of(vector), { after: new Date(vector.after), count: vector.ticks.length })
    assert.deepEqual(ticks, vector.ticks.map((tick: string) => new Date(tick)), vector.cron)
  }
  for (const vector of list('schedules.json', 'refused')) await refused(vector.cron, () => windlass.schedules.preview(of(vector)), vector)
})

onSqlite('unique jobs have the keys of the vectors', async ({ windlass }) => {
  const send = ({ kind, queue, args, scope, by, unique_key: key, fields }: any) => windlass.enqueueUnique(
    defineJob<unknown>(kind), JSON.parse(args), { queue, unique: { key, fields, in: scope, ...by === 'args' && { args: true as const } } })
  // Only the core computes keys: what has the same key is the same job, and nothing else is.
  const ids = new Map<string, number>()
  for (const vector of list('unique.json', 'keys')) {
    const { id, conflict } = await send(vector)
    assert.deepEqual([id, conflict], ids.has(vector.key) ? [ids.get(vector.key), 'kept'] : [id, null], vector.what)
    ids.set(vector.key, id)
  }
  for (const vector of list('unique.json', 'refused')) await refused(vector.what, () => send(vector), { code: vector.code })
})

test('statements of several jobs say the texts of the vectors, by which they take their keys', () => {
  for (const { what, kind, queue, args, scope, by, fields, preimage } of list('unique.json', 'keys')) {
    if (by === 'key') continue
    const unique = fields ? { fields, in: scope } : { args: true as const, in: scope }
    const [, [jobs]] = enqueueManySql(defineJob<unknown>(kind, { queue, unique }), [JSON.parse(args), {}])
    assert.equal(JSON.parse(jobs!)[0].unique_text, preimage, what)
  }
})
