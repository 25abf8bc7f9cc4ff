import assert from 'node:assert/strict'
import { defineJob, EventsExpired, InvalidOption, type JobEvent } from 'windlass'
import { ended, onBoth, onSqlite, started } from './support.js'

const any = defineJob<unknown>('any')
const other = defineJob<unknown>('other', { queue: 'q' })
const quiet = { queues: { default: 10, q: 10 }, onError: () => {} }

onBoth('events are read in order behind a cursor that the consumer keeps', async ({ windlass }, t) => {
  const fails = defineJob<unknown>('fails', { maxAttempts: 1 })
  await started(t, windlass.worker(quiet).handle(any, () => {}).handle(fails, () => { throw new Error('no route') }))
  const id = await windlass.enqueue(any, {})
  await ended(windlass, id)
  const seen: JobEvent[] = []
  for await (const event of windlass.events()) {
    seen.push(event)
    if (event.event === 'completed') break
  }
  assert.deepEqual(seen.map(({ event, id }) => [event, id]), [['enqueued', id], ['started', id], ['completed', id]])
  assert.deepEqual([seen[0]!.queue, seen[0]!.kind, seen[0]!.at instanceof Date, seen[0]!.worker, typeof seen[2]!.worker], ['default', 'any', true, null, 'number'])
  // Another consumer, with what the first one kept.
  const events = windlass.events({ after: seen[1]!.cursor })
  const { events: rest } = await events.page()
  assert.deepEqual(rest.map(({ event }) => event), ['completed'])
  assert.deepEqual([(await events.page()).events, events.position !== undefined], [[], true])
  // It goes on by itself when something happens.
  const next = events[Symbol.asyncIterator]()
  const waits = next.next()
  const failed = await windlass.enqueue(fails, {})
  const got = [(await waits).value as JobEvent]
  for (let event = got[0]!; event.event !== 'discarded'; got.push(event)) event = (await next.next()).value as JobEvent
  assert.deepEqual(got.map(({ event, id }) => [event, id]), ['enqueued', 'started', 'failed', 'discarded'].map(event => [event, failed]))
  assert.match(got[2]!.reason!, /no route/)
})

onBoth('events are filtered, and come in pages', async ({ windlass }) => {
  const ids = [...await windlass.enqueueMany(any, [1, 2, 3]), ...await windlass.enqueueMany(other, [4, 5])]
  await windlass.cancel(ids[4]!)
  const of = async (options: Parameters<typeof windlass.events>[0]) => (await windlass.events(options).page()).events.map(({ id }) => id)
  assert.deepEqual(await of({ queues: ['q'], events: ['enqueued'] }), ids.slice(3))
  assert.deepEqual(await of({ kinds: ['any'] }), ids.slice(0, 3))
  assert.deepEqual(await of({ events: ['cancelled', 'deleted'] }), [ids[4]])
  assert.deepEqual(await of({ after: 'now' }), [])
  const paged: number[] = []
  for await (const { id, event } of windlass.events({ limit: 2 })) {
    paged.push(id)
    if (event === 'cancelled') break
  }
  assert.deepEqual(paged.sort(), [...ids, ids[4]!].sort())
})

onSqlite('a signal ends the reading of events, and what was not seen comes again', async ({ windlass }) => {
  const ids = await windlass.enqueueMany(any, [1, 2, 3])
  const stop = new AbortController()
  const events = windlass.events({ signal: stop.signal })
  const seen: number[] = []
  for await (const { id } of events) {
    seen.push(id)
    if (seen.length === 2) stop.abort()
  }
  assert.deepEqual(seen, ids.slice(0, 2))
  assert.deepEqual((await windlass.events({ after: events.position }).page()).events.map(({ id }) => id), ids.slice(2))
  const waiting = new AbortController()
  const none = windlass.events({ after: 'now', signal: waiting.signal })[Symbol.asyncIterator]().next()
  setImmediate(() => waiting.abort())
  assert.deepEqual(await none, { done: true, value: undefined })
})

onSqlite('wrong cursors and events are refused', async ({ windlass }) => {
  await assert.rejects(windlass.events({ after: 'nonsense' }).page(), InvalidOption)
  await assert.rejects(windlass.events({ events: ['lost' as never] }).page(), /unknown event "lost"/)
  await assert.rejects(windlass.events({ quues: ['a'] } as never).page(), /unknown field `quues`/)
  await assert.rejects(async () => { for await (const _ of windlass.events({ after: 'nonsense' })) assert.fail('an event') }, InvalidOption)
  assert.equal(new EventsExpired('events_expired', 'x').code, 'events_expired')
})

onBoth('the store\'s policy and what is kept of single queues are read and changed', async ({ windlass }) => {
  const before = await windlass.settings()
  assert.deepEqual([before.retentionMs, before.deadRetentionMs, before.maxCrashes], [86_400_000, 30 * 86_400_000, 5])
  await windlass.configure({ retention: '7d', maxCrashes: 7 })
  assert.deepEqual(await windlass.settings(), { ...before, retentionMs: 7 * 86_400_000, maxCrashes: 7 })
  await assert.rejects(windlass.configure({ maxCrashes: 2 }), /at least 3, got 2/)
  await assert.rejects(windlass.configure({ retention: 'soon' }), /retention must be/)
  assert.deepEqual(await windlass.retention(), [])
  await windlass.setRetention([{ queue: 'mail', outcome: 'discarded', count: 1_000 }, { outcome: 'cancelled', age: '2d' }])
  assert.deepEqual((await windlass.retention()).sort((a, b) => a.outcome < b.outcome ? -1 : 1), [
    { queue: null, outcome: 'cancelled', ageMs: 172_800_000, count: null }, { queue: 'mail', outcome: 'discarded', ageMs: null, count: 1_000 },
  ])
  await windlass.setRetention([{ queue: 'mail', outcome: 'discarded' }])
  assert.equal((await windlass.retention()).length, 1)
  await assert.rejects(windlass.setRetention([{ outcome: 'running' as never, age: '1d' }]), InvalidOption)
})

onBoth('the audit log is read and added to', async ({ windlass }) => {
  await windlass.appendAudit([{ actor: 'anna', action: 'jobs.delete', target: 'q', count: 4, filter: { queue_name: 'q' }, requestId: 'r1' }, { actor: 'ben', action: 'queues.pause', target: 'q' }])
  const { entries: [newest], next } = await windlass.audit({ limit: 1 })
  assert.deepEqual([newest!.actor, newest!.via, newest!.outcome, newest!.at instanceof Date], ['ben', 'sdk', 'done', true])
  const { entries: [first], next: end } = await windlass.audit({ before: next!, since: new Date(Date.now() - 86_400_000) })
  assert.deepEqual([first!.count, first!.filter, first!.requestId, end], [4, { queue_name: 'q' }, 'r1', null])
  await assert.rejects(windlass.audit({ before: '7' }), /not the id of an audit entry/)
})

onBoth('what is done for somebody is noted', async ({ windlass }) => {
  const [id, other] = await windlass.enqueueMany(any, [{}, {}])
  const anna = windlass.actingAs('anna')
  assert.equal(await anna.cancel(id!), 'cancelled')
  await anna.limits.set('q', { concurrency: 3 })
  await assert.rejects(anna.schedules.pause('nightly'), { code: 'not_found' })
  assert.equal((await anna.job(other!))?.state, 'available')
  await windlass.cancel(other!)
  const { entries } = await windlass.audit()
  assert.deepEqual(entries.map(({ actor, via, action, count }) => [actor, via, action, count ?? null]),
    [['anna', 'sdk', 'queues.limit', null], ['anna', 'sdk', 'jobs.cancel', 1]])
  for (const nobody of ['', ' ', undefined as unknown as string]) assert.throws(() => windlass.actingAs(nobody), /who acts must be named/)
})

onBoth('history counts how jobs ended', async ({ windlass }, t) => {
  await started(t, windlass.worker(quiet).handle(any, () => {}).handle(other, () => {}))
  for (const id of [await windlass.enqueue(any, {}), await windlass.enqueue(other, {})]) await ended(windlass, id)
  // The worker that leads counts every few seconds.
  let counted = await windlass.history('1h')
  for (const until = Date.now() + 60_000; counted.counts.length < 2 && Date.now() < until;) {
    await new Promise(resolve => setTimeout(resolve, 50))
    counted = await windlass.history('1h')
  }
  const { counts, stepMs, countedUntil } = await windlass.history('1h', { step: '1h', queue: 'q', outcome: 'completed' })
  assert.deepEqual(counts.map(({ queue, outcome, count, at }) => [queue, outcome, count, at.getTime() % 3_600_000]), [['q', 'completed', 1, 0]])
  assert.deepEqual([stepMs, countedUntil instanceof Date], [3_600_000, true])
  await assert.rejects(windlass.history('31d'), /up to 30 days/)
  await assert.rejects(windlass.history('1h', { outcome: 'lost' as never }), /lost/)
})

onBoth('timings, failures and marks are told', async ({ windlass }, t) => {
  const worker = await started(t, windlass.worker(quiet).handle(any, () => {}).handle(other, () => { throw new Error('no paper in tray 7') }))
  const ids = [await windlass.enqueue(any, {}), await windlass.enqueue(other, {}, { maxAttempts: 1 })]
  for (const id of ids) await ended(windlass, id)
  await worker.close()
  const timed = await windlass.timings('1d', { step: '1d' })
  assert.deepEqual(timed.map(({ kind, wait, run }) => [kind, wait.count, run.count, typeof run.p95Ms]).sort(), [[any.kind, 1, 1, 'number'], [other.kind, 1, 1, 'number']].sort())
  const [failure, ...more] = await windlass.failures('1d')
  assert.deepEqual([failure?.kind, failure?.lastJob, failure?.count, more.length, failure?.lastAt instanceof Date], [other.kind, ids[1], 1, 0, true])
  assert.match(failure?.sample ?? '', /no paper in tray 7/)
  await windlass.mark('release 7', 'ci')
  assert.deepEqual((await windlass.marks('1h')).map(({ label, actor }) => [label, actor]), [['release 7', 'ci']])
  await assert.rejects(windlass.mark(' ', 'ci'), /label of a mark is empty/)
  await assert.rejects(windlass.timings('31d'), /up to 30 days/)
})

onBoth('it is known whether a worker would be given a job', async ({ windlass }) => {
  const id = await windlass.enqueue(any, {})
  const available = (queues: string[], kinds?: string[]) => windlass.anyAvailable({ queues, kinds })
  assert.deepEqual(await Promise.all([available(['default']), available(['default'], ['any']), available(['q'])]), [true, true, false])
  {
    await using worker = windlass.worker(quiet).handle(other, () => {})
    await worker.start()
    await worker.untilIdle()
  }
  // A worker met it that does not know its kind.
  assert.deepEqual([(await windlass.job(id))!.state, await available(['default'], ['any']), await available(['default'], ['other'])], ['available', true, false])
})

onBoth('many unique jobs are enqueued in one call', async ({ windlass }) => {
  const index = defineJob<{ user: number }>('index', { unique: { fields: ['user'] } })
  const [first] = await windlass.enqueueManyUnique(index, [{ user: 1 }])
  const all = await windlass.enqueueManyUnique(index, [{ user: 1 }, { user: 2 }, { user: 2 }])
  assert.deepEqual(all.map(({ conflict }) => conflict), ['kept', null, 'kept'])
  assert.deepEqual([all[0]!.id, all[1]!.id], [first!.id, all[2]!.id])
  await assert.rejects(windlass.enqueueManyUnique(any, [1]), /what makes a job of kind "any" unique/)
})
