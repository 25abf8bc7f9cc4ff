// A busy shop, the same every time but for the hour: what the mock server answers from.

const MINUTE = 60_000, HOUR = 60 * MINUTE;

/** Numbers between 0 and 1, the same for the same seed. */
export function random(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export const iso = ms => new Date(ms).toISOString();

const TIMEOUT = 'ConnectTimeout: hooks.acme-retail.example:443 did not answer within 10 s';
const TRACE = 'EncoderError: moov atom not found (exit code 1)\nencode_segment (src/encode/segment.rs:142)\nencode_video   (src/encode/mod.rs:88)\n  caused by: ffmpeg exited with 1\n  caused by: moov atom not found';

const QUEUES = [
  ['mail', 1204, 312, 4812, { concurrency: 400 }, 'mail.send'],
  ['push', 218, 96, 3050, {}, 'push.deliver'],
  ['webhooks', 48210, 600, 2140, { concurrency: 600, rate: { count: 2500, period_ms: 1000, burst: 500 } }, 'webhook.deliver'],
  ['search-index', 0, 41, 1420, {}, 'index.upsert'],
  ['ml-embed', 84, 60, 512, { concurrency: 64 }, 'embed.batch'],
  ['default', 3, 22, 388, {}, 'fx.rates'],
  ['billing', 12, 38, 64, { concurrency: 40 }, 'invoice.close'],
  ['media', 1830, 32, 3.1, { concurrency: 32 }, 'video.encode'],
  ['exports', 0, 2, 0.8, {}, 'export.partner'],
  ['reports', 640, 0, 0, {}, 'report.weekly'],
];

/** Limits of keys, by queue. */
const keys = () => new Map([['webhooks', {
  default: { concurrency: 20, weight: 1 },
  named: new Map([['hooks.acme-retail.example', { concurrency: 5, rate: { count: 100, period_ms: MINUTE }, weight: 1 }], ['hooks.bank.example/settlements', { serial: true, weight: 3 }]]),
}]]);

function queue(now, [name, available, running, claimed, limits], i) {
  const oldest = { webhooks: 24_000, media: 580_000, reports: 6_720_000 }[name] ?? 300;
  return {
    name, paused: name === 'reports', limits, available, no_handler: name === 'billing' ? 12 : 0, running, scheduled: 21_400 - i * 2_000, retryable: name === 'webhooks' ? 2911 : i * 7,
    completed: 4_180_000 - i * 400_000, cancelled: i === 0 ? 300 : 1, discarded: name === 'webhooks' ? 74 : i === 7 ? 11 : 0,
    oldest_available_at: available ? iso(now - oldest) : null, oldest_no_handler_at: name === 'billing' ? iso(now - 14 * MINUTE) : null, estimates: name === 'webhooks' ? ['available', 'completed'] : ['completed'], rate: { claimed },
  };
}

const job = (now, id, more) => ({
  id: String(id), state: 'available', kind: 'mail.send', queue: 'mail', priority: 0, attempt: 0, max_attempts: 20, crash_count: 0, args: {}, redacted: false,
  enqueued_at: iso(now - HOUR), scheduled_at: null, claimed_at: null, claimed_by: null, finished_at: null, reason: null, key: null, meta: null, tags: [],
  timeout_ms: null, retry_policy: null, expires_at: null, cost: null, result: null, errors: [], ...more,
});

function jobs(now) {
  const rand = random(11), list = [];
  const events = ['order.paid', 'order.packed', 'stock.low', 'refund.created', 'order.shipped'];
  const args = i => ({ endpoint: `https://hooks.acme-retail.example/${['orders', 'stock', 'refunds'][i % 3]}`, event: events[i % 5], delivery: `d_${(0x9f31 + i * 77).toString(16)}` });
  let id = 48_213_977;
  const next = () => (id -= 1 + Math.floor(rand() * 30));
  for (let i = 0; i < 320; i++) {
    const attempt = 1 + (i % 7);
    list.push(job(now, next(), { state: 'retryable', kind: i % 16 === 7 ? 'webhook.replay' : 'webhook.deliver', queue: 'webhooks', attempt, args: args(i), tags: i % 9 ? [] : ['acme'], scheduled_at: iso(now + 12_000 + i * 5_000), claimed_at: iso(now - 90_000), claimed_by: 4,
      errors: Array.from({ length: attempt }, (_, n) => ({ attempt: n + 1, at: iso(now - (attempt - n) * 8 * MINUTE), error: TIMEOUT })) }));
  }
  for (let i = 0; i < 87; i++) list.push(job(now, next(), { state: 'discarded', kind: i % 5 ? 'webhook.deliver' : 'video.encode', queue: i % 5 ? 'webhooks' : 'media', attempt: 20, args: args(i), finished_at: iso(now - i * 7 * MINUTE), reason: i % 5 ? 'HTTP 410 Gone' : 'moov atom not found' }));
  for (let i = 0; i < 12; i++) list.push(job(now, next(), { state: 'cancelled', attempt: i % 2, args: { to: `u${i}@shop.example`, template: 'receipt' }, finished_at: iso(now - i * HOUR), reason: 'tenant left' }));
  for (let i = 0; i < 60; i++) list.push(job(now, next(), { state: 'running', kind: 'index.upsert', queue: 'search-index', attempt: 1, args: { document: 99_000 + i }, claimed_at: iso(now - 900 - i * 40), claimed_by: 6, enqueued_at: iso(now - 2_000 - i * 40) }));
  for (let i = 0; i < 140; i++) list.push(job(now, next(), { args: { to: `u${i}@shop.example`, template: 'receipt', locale: 'de' }, enqueued_at: iso(now - i * 90), key: i % 6 ? null : `customer/${i}` }));
  for (let i = 0; i < 90; i++) list.push(job(now, next(), { state: 'scheduled', kind: 'mail.digest', args: { user: i, list: 'weekly' }, scheduled_at: iso(now + HOUR + i * 4 * MINUTE) }));
  for (let i = 0; i < 160; i++) list.push(job(now, next(), { state: 'completed', kind: i % 2 ? 'mail.send' : 'push.deliver', queue: i % 2 ? 'mail' : 'push', attempt: 1, args: { to: `u${i}@shop.example` }, claimed_at: iso(now - i * 800 - 60), claimed_by: 1, finished_at: iso(now - i * 800), enqueued_at: iso(now - i * 800 - 220), result: { id: `msg_${i}` } }));
  list.push(video(now), hostile(now, next()));
  return new Map(list.map(each => [each.id, each]));
}

/** The job of the pictures: a failure, a rescue, progress, a log, a secret. */
function video(now) {
  const line = (ago, attempt, text) => ({ at: iso(now - ago), attempt, text });
  return job(now, 48190412, {
    state: 'running', kind: 'video.encode', queue: 'media', attempt: 2, max_attempts: 8, crash_count: 1, redacted: true, key: 'encode/8841/1080p', tags: ['studio'],
    args: { video_id: 8841, source: 's3://uploads/2026/11/8841.mov', profile: '1080p', watermark: { corner: 'se', alpha: 0.4 }, upload_token: '‹43 characters hidden›', notify: ['editor@studio.example'] },
    secret: { upload_token: 'ut_5f1c2b7a9d0e4c8fa1b2c3d4e5f60718293a4b5c6' },
    meta: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', flow: 'Publish video 8841' }, timeout_ms: 45 * MINUTE, retry_policy: { backoff: 'exponential', base_ms: 15_000, factor: 2, max_ms: HOUR, jitter: 0.1 },
    enqueued_at: iso(now - 32 * MINUTE), claimed_at: iso(now - 15 * MINUTE), claimed_by: 8, errors: [{ attempt: 1, at: iso(now - 27 * MINUTE), error: TRACE }],
    report: {
      reported_at: iso(now - 2_000), attempt: 2, progress: { percent: 62, note: 'segment 255 of 412' }, checkpoint: { segment: 255 }, log_dropped: 12,
      log: [line(28 * MINUTE, 1, 'fetching source bytes=4.81 GB'), line(27 * MINUTE, 1, 'moov atom not found'), line(14 * MINUTE, 2, 'resuming at segment 118 of 412'), line(9 * MINUTE, 2, 'segment 187 fps=148 speed=2.4x'), line(4 * MINUTE, 2, 'audio drift 41 ms, corrected segment=221'), line(4_000, 2, 'segment 255 fps=150 speed=2.4x')],
    },
  });
}

/** Markup wherever a user may write text. */
export const MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script><b>bold</b>';

const hostile = (now, id) => job(now, id, {
  state: 'discarded', kind: `evil${MARKUP}`, queue: 'default', attempt: 3, max_attempts: 3, args: { [MARKUP]: MARKUP, link: 'javascript:alert(3)' }, key: MARKUP, tags: [MARKUP], reason: MARKUP,
  finished_at: iso(now - 20_000), errors: [{ attempt: 3, at: iso(now - 20_000), error: `${MARKUP}\n${MARKUP}` }], meta: MARKUP, result: MARKUP,
  report: { reported_at: iso(now), attempt: 3, progress: { percent: 10, note: MARKUP }, checkpoint: null, log_dropped: 0, log: [{ at: iso(now), attempt: 3, text: MARKUP }] },
});

const WORKERS = [
  [1, 'mail-1 web-03:4112', ['mail', 'default'], 1_200, 6 * 24 * HOUR], [2, 'mail-2 web-04:2290', ['mail', 'default'], 400, 6 * 24 * HOUR], [3, 'push-1 web-03:4140', ['push'], 2_000, 26 * HOUR],
  [4, 'hooks-1 jobs-01:811', ['webhooks'], 900, 20 * MINUTE], [5, 'hooks-2 jobs-02:774', ['webhooks'], 2_700, 20 * MINUTE], [6, 'search-1 jobs-01:902', ['search-index'], 3_100, 9 * HOUR],
  [7, 'embed-1 gpu-01:66', ['ml-embed'], 1_100, 72 * HOUR], [8, 'media-1 jobs-03:118', ['media', 'billing', 'exports'], 600, 57 * HOUR], [9, 'media-3 jobs-03:121', ['media', 'billing'], 1_800, 57 * HOUR],
  [10, 'media-2 jobs-02:640', ['media', 'billing'], 17 * MINUTE, 56 * HOUR],
];

// What they say they run; an older worker says nothing.
const program = (name, version, engine, memory, rate) => ({ program: name, app_version: version, engine, memory_bytes: memory && memory * 2 ** 20, jobs_per_second: rate });
const PROGRAMS = {
  1: program('shop', '2.4.1', 'Rust 0.1.0', 212, 2_604), 3: program('push.js', '2.4.1', 'TypeScript 0.1.0', 164, 3_050), 4: program('hooks.jobs:app', '2.4.0', 'Python 0.1.0', 388, 1_071),
  5: program('hooks.jobs:app', '2.4.1', 'Python 0.1.0', 391, 1_069), 6: program('search.php', null, 'HTTP 0.1.0', null, 0.25), 7: program('embed.py', null, 'stdio 0.1.0', 2_100, 512), 9: program(null, null, null, null, null),
};

function schedule(now, [name, cron, zone, kind, queue, next, last, run, more]) {
  return {
    name, source: 'shop', definition: { cron, zone, kind, queue, args: { of: name }, priority: 0, max_attempts: 20, overlap: 'skip', missed: 'last', jitter_ms: 0 }, paused: false, next_tick: iso(now + next), due_at: iso(now + next),
    last_tick: iso(now - last), last_job: '48190412', last_enqueued_at: iso(now - last), last_run: run, queued_tick: null, error: null, next: Array.from({ length: 10 }, (_, i) => iso(now + next + i * HOUR)), ...more,
  };
}

const SCHEDULES = [
  ['digest.daily', '30 7 * * MON-FRI', 'Europe/Berlin', 'mail.digest', 'mail', 16 * HOUR, 8 * HOUR, 'completed'], ['exports.partner', '0 */4 * * *', 'UTC', 'export.partner', 'exports', HOUR, 3 * HOUR, 'completed'],
  ['fx.rates', '5 * * * *', 'UTC', 'fx.rates', 'default', 14 * MINUTE, 46 * MINUTE, 'discarded'], ['invoices.close-day', '0 2 * * *', 'Europe/Berlin', 'invoice.close', 'billing', 11 * HOUR, 13 * HOUR, 'completed'],
  ['loyalty.expire', '0 13 * * *', 'UTC', 'loyalty.expire', 'default', 22 * HOUR, 2 * HOUR, 'completed', { paused: true }], ['search.compact', 'every 20m', 'UTC', 'index.compact', 'search-index', 9 * MINUTE, 11 * MINUTE, 'running'],
  ['broken', '0 0 31 2 *', 'UTC', 'x', 'default', 0, 0, null, { next_tick: null, due_at: null, last_tick: null, last_job: null, last_enqueued_at: null, next: [], error: 'the expression "0 0 31 2 *" has no tick within 100 years' }],
];

const AUDIT = [
  ['l.haddad', 'admin', 'jobs.reveal', '/jobs/48190412/args', {}, 'done'], ['l.haddad', 'admin', 'queues.limit', '/queues/webhooks/limits', {}, 'done'], ['v.ruiz', 'viewer', 'queues.pause', '/queues/webhooks/pause', {}, 'permission_denied'],
  ['m.okafor', 'operator', 'queues.pause', '/queues/reports/pause', { reason: 'warehouse migration' }, 'done'], ['m.okafor', 'operator', 'bulk.confirm', '/bulk/b_4/confirm', { filter: { state: 'discarded', kind: 'webhook.deliver' }, count: 1120 }, 'done'],
  ['deploy@ci-3', undefined, 'settings.put', 'settings', { via: 'cli', request_id: undefined }, 'done'],
];

function audit(now) {
  return Array.from({ length: 64 }, (_, i) => {
    const [actor, role, action, target, more, outcome] = AUDIT[i % AUDIT.length];
    return { id: String(900 - i), at: iso(now - i * 7 * MINUTE - 30_000), actor, role, via: 'session', action, target, filter: null, reason: null, count: null, outcome, request_id: `r-${900 - i}`, ...more };
  });
}

const KINDS = { webhooks: ['webhook.deliver', 'webhook.replay'], mail: ['mail.send', 'mail.digest'] };

const APART = { none: [], queue: ['queue'], kind: ['kind'], queue_and_kind: ['queue', 'kind'] };

/** Counters as the server answers: of what is told apart one series each. */
export function history(store, { by = 'queue_and_kind', outcome, top, ...asked }) {
  const { counts, ...times } = counters(store, asked), found = new Map(), begins = counts[0]?.at ?? null;
  for (const count of counts.filter(each => !outcome || each.outcome === outcome)) {
    const of = { queue: null, kind: null, outcome: count.outcome };
    for (const name of APART[by]) of[name] = count[name];
    const key = JSON.stringify(of), step = (Date.parse(count.at) - Date.parse(begins)) / times.step_ms;
    if (!found.has(key)) found.set(key, { ...of, counts: [] });
    const { counts: mine } = found.get(key);
    if (mine.at(-1)?.[0] === step) mine.at(-1)[1] += count.count;
    else mine.push([step, count.count]);
  }
  const total = ({ counts: mine }) => mine.reduce((sum, [, n]) => sum + n, 0);
  const series = [...found.values()];
  return { ...times, begins, series: top ? series.sort((a, b) => total(b) - total(a)).slice(0, top) : series };
}

/** Counters per step, of the last so many seconds. */
function counters(store, { last_s: last, step_s: step, queue: only }) {
  const now = Date.now(), counts = [], rand = random(5);
  const first = Math.floor((now - last * 1000) / (step * 1000)) * step * 1000;
  for (let at = first; at <= now; at += step * 1000) {
    const x = (at - first) / (last * 1000), part = Math.min(1, Math.max(0, now - 8_000 - at) / (step * 1000));
    for (const [name, , , rate, , kind] of QUEUES) {
      if (only && only !== name) continue;
      for (const [k, one] of (KINDS[name] ?? [kind]).entries()) {
        const dip = x > 0.56 && x < 0.62 ? 0.66 : 1, n = rate * step * part * dip * (k ? 0.1 : 0.9) * (0.95 + rand() * 0.1);
        const failed = n * (name === 'webhooks' ? (x > 0.6 ? 0.04 : 0.008) : name === 'media' ? 0.006 : 0.0004) * (0.6 + rand());
        for (const [outcome, count] of [['completed', Math.round(n)], ['failed', Math.round(failed)]]) if (count) counts.push({ at: iso(at), queue: name, kind: one, outcome, count });
      }
    }
  }
  return { step_ms: step * 1000, counted_until: iso(now - 8_000), counts };
}

/** How long jobs waited and ran, of all together. */
export function timings(store, { last_s: last, step_s: step, queue: only }) {
  const now = Date.now(), timed = [], rand = random(only ? 9 : 7);
  const first = Math.floor((now - last * 1000) / (step * 1000)) * step * 1000;
  const quantiles = (n, ms) => ({ count: n, p50_ms: ms / 3, p95_ms: ms, p99_ms: ms * 2 });
  for (let at = first; at <= now - 60_000; at += step * 1000) {
    const x = (at - first) / (last * 1000), late = x > 0.56 && x < 0.62 ? 9 : 1;
    timed.push({ at: iso(at), queue: null, kind: null, wait: quantiles(900, 40 * late * (0.8 + rand() * 0.4)), run: quantiles(1_000, 180 * (0.8 + rand() * 0.4)) });
  }
  return { step_ms: step * 1000, timed: store.queues.length ? timed : [] };
}

/** Why attempts failed. */
export function failures(store, { queue: only }) {
  const now = Date.now(), failed = [...store.jobs.values()].filter(job => job.errors?.length);
  const of = (sample, queue, kind, count, minutes) => ({ fingerprint: `${count}`.padStart(16, '0'), queue, kind, sample, last_job: failed[0]?.id ?? '1', count, first_at: iso(now - 3_600_000), last_at: iso(now - minutes * 60_000) });
  const items = store.queues.length ? [
    of('upstream answered 503 within 10 s: https://hooks.example.com/in', 'webhooks', 'webhook.deliver', 1_284, 1), of('connection reset by peer', 'webhooks', 'webhook.replay', 96, 4),
    of('ffmpeg ended with code 1', 'media', 'video.encode', 31, 12), of(null, 'mail', 'mail.send', 3, 40),
  ].filter(each => !only || each.queue === only) : [];
  return { items, total: items.length };
}

export function sample(now = Date.now()) {
  const queues = QUEUES.map((row, i) => queue(now, row, i));
  return {
    queues, keys: keys(), jobs: jobs(now), schedules: SCHEDULES.map(row => schedule(now, row)), audit: audit(now), bulks: new Map(),
    workers: WORKERS.map(([id, name, of, seen, up]) => ({ id, name, queues: of, started_at: iso(now - up), heartbeat_at: iso(now - seen), live: id !== 10, draining: false, ...PROGRAMS[id] ?? PROGRAMS[1] })),
    needs: [
      { what: 'discarded', queue: 'webhooks', count: 74, since: iso(now - 3 * MINUTE) }, { what: 'worker_died', queue: 'media', count: 31, since: iso(now - 17 * MINUTE) }, { what: 'schedule_error', schedule: 'broken' },
      { what: 'old', queue: 'media', count: 1830, since: iso(now - 580_000) }, { what: 'paused', queue: 'reports', count: 640, since: iso(now - 112 * MINUTE) },
      { what: 'no_handler', queue: 'billing', count: 12, since: iso(now - 14 * MINUTE) },
    ],
  };
}

/** A store in which nothing ever happened. */
export const empty = () => ({ queues: [], keys: new Map(), jobs: new Map(), schedules: [], audit: [], bulks: new Map(), workers: [], needs: [] });

const STATES = ['available', 'running', 'scheduled', 'retryable', 'completed', 'cancelled', 'discarded'];

const todo = queue => queue.available + queue.running + queue.scheduled + queue.retryable;
const busiest = queues => (queues.length > 200 ? [...queues].sort((a, b) => todo(b) - todo(a)).slice(0, 200) : queues);

const oldest = queues => {
  const [first] = queues.filter(queue => queue.oldest_available_at).sort((a, b) => Date.parse(a.oldest_available_at) - Date.parse(b.oldest_available_at));
  return first ? { queue: first.name, since: first.oldest_available_at } : null;
};

export function overview(store) {
  const now = Date.now();
  for (const worker of store.workers) if (worker.live) worker.heartbeat_at = iso(now - (worker.id * 300) % 4_000);
  const totals = Object.fromEntries(STATES.map(state => [state, store.queues.reduce((sum, each) => sum + each[state], 0)]));
  const estimates = STATES.filter(state => store.queues.some(each => each.estimates.includes(state)));
  return { at: iso(now), store: 'PostgreSQL 15.18', schema_version: 7, size_bytes: 18_400_000_000, queue_count: store.queues.length, paused_count: store.queues.filter(each => each.paused).length, oldest: oldest(store.queues), queues: busiest(store.queues), workers: store.workers.slice(0, 1_000), more_workers: store.workers.length > 1_000, totals: { ...totals, estimates }, needs_a_look: store.needs };
}
