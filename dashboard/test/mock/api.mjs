// /api/v1 by the contract, over the sample store. Each route: method, path, least role, answer.

import { failures, history, iso, overview, timings } from './data.mjs';

const RANK = { viewer: 0, operator: 1, admin: 2 };

/** Thrown where the server would answer with a problem. */
export class Refusal extends Error {
  constructor(status, code, title, detail) {
    super(detail);
    Object.assign(this, { status, code, title });
  }
}

const found = (thing, what) => thing ?? refuse(404, 'not_found', 'Not found', `there is no ${what}`);

function refuse(status, code, title, detail) {
  throw new Refusal(status, code, title, detail);
}

const says = (job, text) => (job.reason ?? '').toLowerCase().includes(text.toLowerCase());
const contains = (args, wanted) => Object.entries(JSON.parse(wanted)).every(([name, value]) => JSON.stringify(args?.[name]) === JSON.stringify(value));
const matches = ({ state, queue, kind, tag, error, args }) => job =>
  (!error || says(job, error)) && (!args || contains(job.args, args)) &&
  (!state || job.state === state) && (!queue || job.queue === queue) && (!kind || job.kind === kind) && (!tag || job.tags.includes(tag));

const listed = ({ errors: _, report: __, secret: ___, ...job }) => ({ ...job, errors: [] });
const shown = ({ secret: _, ...job }) => job;

function page(mock, query) {
  const limit = Number(query.limit ?? 50);
  // One look goes through a bounded number of jobs, and a rare kind lies behind that.
  if (query.kind === 'rare.kind' && !query.after) return { items: [], next: 'behind-the-bound', complete: false };
  const start = query.after === 'behind-the-bound' ? 0 : Number(query.after ?? 0);
  const all = [...mock.store.jobs.values()].filter(matches(query.kind === 'rare.kind' ? { kind: 'video.encode' } : query));
  return { items: all.slice(start, start + limit).map(listed), next: start + limit < all.length ? String(start + limit) : null, complete: true };
}

const ENDED = ['completed', 'cancelled', 'discarded'];

const CHANGES = {
  retry(job) {
    if (job.state === 'completed') return 'completed';
    if (['available', 'running'].includes(job.state)) return 'pending';
    Object.assign(job, { state: 'available', scheduled_at: null, finished_at: null, reason: null });
    return 'retried';
  },
  cancel(job) {
    if (ENDED.includes(job.state)) return 'finished';
    if (job.state === 'running') return 'running';
    Object.assign(job, { state: 'cancelled', scheduled_at: null, finished_at: iso(Date.now()), reason: 'cancelled by hand' });
    return 'cancelled';
  },
  delete(job, mock) {
    if (['running', 'completed'].includes(job.state)) return job.state;
    mock.store.jobs.delete(job.id);
    return 'deleted';
  },
};

const change = (verb, status = 200) => (mock, [id]) => {
  const job = mock.store.jobs.get(id);
  const reply = job ? CHANGES[verb](job, mock) : 'not_found';
  mock.push();
  return [status, { reply }];
};

function edit(mock, [id], body) {
  const job = mock.store.jobs.get(id);
  if (!job) return [200, { reply: 'not_found' }];
  if (['running', 'completed'].includes(job.state)) return [200, { reply: job.state === 'running' ? 'running' : 'finished' }];
  const known = ['queue', 'priority', 'max_attempts', 'scheduled_at', 'args'];
  const other = Object.keys(body).find(key => !known.includes(key));
  if (other) refuse(422, 'invalid_option', 'Unprocessable', `unknown field ${other}; known are ${known.join(', ')}`);
  if (body.priority > 100 || body.priority < -100) refuse(422, 'invalid_option', 'Unprocessable', `priority must be -100 to 100, got ${body.priority}`);
  Object.assign(job, body);
  mock.push();
  return [200, { reply: 'edited' }];
}

function preview(mock, _, { action, edit: changes, filter, ids }) {
  if (!ids && !Object.values(filter ?? {}).some(Boolean)) refuse(422, 'invalid_option', 'Unprocessable', 'the filter is empty; name a state, a queue, a kind or a tag');
  const chosen = ids ?? [...mock.store.jobs.values()].filter(matches(filter)).map(job => job.id);
  const id = `b_${mock.store.bulks.size + 1}`;
  const bulk = { id, action, changes, filter: filter ?? null, count: chosen.length, exact: true, expires_at: iso(Date.now() + 600_000), done: 0, asked: 0, left: 0, state: 'previewed', chosen };
  if (mock.counting) Object.assign(bulk, { state: 'counting', count: mock.counting, exact: false });
  mock.store.bulks.set(id, bulk);
  return [201, bare(bulk)];
}

function confirm(mock, [id], { count }) {
  const bulk = found(mock.store.bulks.get(id), `bulk change ${id}`);
  if (bulk.state !== 'previewed') refuse(409, 'conflict', 'Conflict', `${id} was confirmed or stopped before`);
  if (bulk.count !== count) refuse(409, 'conflict', 'Another count', `the preview counted ${bulk.count} jobs, the confirmation says ${count}; look at the preview again`);
  bulk.state = 'running';
  mock.run(bulk, jobId => {
    const job = mock.store.jobs.get(jobId);
    const reply = !job ? 'not_found' : bulk.action === 'edit' ? edit(mock, [jobId], bulk.changes)[1].reply : CHANGES[bulk.action](job, mock);
    bulk[['retried', 'cancelled', 'deleted', 'edited'].includes(reply) ? 'done' : reply === 'running' && bulk.action === 'cancel' ? 'asked' : 'left']++;
  });
  return [202, bare(bulk)];
}

const bare = ({ chosen: _, changes: __, ...bulk }) => bulk;

function pause(paused) {
  return (mock, [name]) => {
    found(mock.store.queues.find(queue => queue.name === name), `queue ${name}`).paused = paused;
    mock.push();
    return [204];
  };
}

function limits(mock, [name], { concurrency, rate }) {
  const queue = found(mock.store.queues.find(each => each.name === name), `queue ${name}`);
  queue.limits = { ...(concurrency && { concurrency }), ...(rate && { rate: { count: rate.count, period_ms: rate.period_ms, ...(rate.burst && { burst: rate.burst }) } }) };
  mock.push();
  return [200, queue];
}

const namedOf = keys => [...keys.named].sort(([a], [b]) => (a < b ? -1 : 1));

function keyLimits(mock, [name], _, { search = '', after = '', limit = 50 }) {
  found(mock.store.queues.find(each => each.name === name), `queue ${name}`);
  const keys = mock.store.keys.get(name);
  if (!keys) return [200, { default: null, items: [], next: null }];
  const all = namedOf(keys).filter(([key]) => key > after && key.toLowerCase().includes(search.toLowerCase()));
  const items = all.slice(0, Number(limit)).map(([key, limit]) => ({ key, limit }));
  return [200, { default: keys.default, items, next: all.length > items.length ? items.at(-1).key : null }];
}

function limitKeys(mock, [name, key], { weight = 1, ...limit }) {
  if (weight < 1 || weight > 1000) refuse(422, 'invalid_option', 'Invalid option', `the weight of a key must be 1 to 1000, got ${weight}`);
  const kept = { ...limit, weight }, keys = mock.store.keys.get(name) ?? { default: { weight: 1 }, named: new Map() };
  mock.store.keys.set(name, keys);
  if (key === undefined) keys.default = kept;
  else keys.named.set(key, kept);
  mock.push();
  return [200, kept];
}

function unlimitKeys(mock, [name, key]) {
  const keys = found(mock.store.keys.get(name), `limit of keys of queue ${name}`);
  if (key === undefined) mock.store.keys.delete(name);
  else if (!keys.named.delete(key)) refuse(404, 'not_found', 'Not found', `key ${key} of queue ${name} has no limit of its own`);
  mock.push();
  return [204];
}

function queuesOf(mock, _, __, { search = '', after = '', limit = 50 }) {
  const found = mock.store.queues.filter(({ name }) => name > after && name.toLowerCase().includes(search.toLowerCase())).sort((a, b) => (a.name < b.name ? -1 : 1));
  const items = found.slice(0, Number(limit));
  return [200, { items, next: found.length > items.length ? items.at(-1).name : null }];
}

function queueOf(mock, [name]) {
  const queue = found(mock.store.queues.find(each => each.name === name), `queue ${name}`);
  const keys = mock.store.keys.get(name);
  const beside = keys ? { default: keys.default, named: Object.fromEntries(namedOf(keys).slice(0, 50)), named_count: keys.named.size } : null;
  return [200, { ...queue, key_limits: beside, workers: mock.store.workers.filter(worker => worker.queues.includes(name)) }];
}

const scheduleOf = (mock, name) => found(mock.store.schedules.find(schedule => schedule.name === name), `schedule ${name}`);

function schedules(mock, _, __, { after = '', limit = 50 }) {
  const behind = mock.store.schedules.filter(({ name }) => name > after).sort((a, b) => (a.name < b.name ? -1 : 1));
  const items = behind.slice(0, Number(limit)).map(({ next: _, ...schedule }) => schedule);
  return [200, { items, next: behind.length > items.length ? items.at(-1).name : null }];
}

function drain(mock, [id]) {
  found(mock.store.workers.find(worker => String(worker.id) === id && worker.live), `worker ${id}`).draining = true;
  mock.push();
  return [204];
}

function setPaused(paused) {
  return (mock, [name]) => {
    scheduleOf(mock, name).paused = paused;
    return [204];
  };
}

function run(mock, [name]) {
  Object.assign(scheduleOf(mock, name), { last_enqueued_at: iso(Date.now()), last_run: 'available' });
  return [204];
}

function audit(mock, _, __, { before, limit = 50 }) {
  const entries = mock.store.audit.filter(entry => !before || Number(entry.id) < Number(before));
  const items = entries.slice(0, Number(limit));
  return [200, { items, next: entries.length > items.length ? items.at(-1).id : null }];
}

function logIn(mock, _, { token }) {
  if (token !== mock.token) refuse(401, 'permission_denied', 'Unauthorized', 'this token is not known here');
  return [204, undefined, { 'set-cookie': 'windlass_session=s1; HttpOnly; SameSite=Strict; Path=/' }];
}

const session = (mock, _, __, ___, known) => [200, { actor: known ? mock.actor : null, role: known ? mock.role : null, read_only: mock.readOnly, version: '0.1.0', trace_url: 'https://traces.example.com/{trace_id}', store: known ? 'PostgreSQL 15.18' : null, login: !!mock.token && !known }];

export const ROUTES = [
  ['GET', 'session', null, session],
  ['POST', 'session', null, logIn],
  ['DELETE', 'session', null, () => [204, undefined, { 'set-cookie': 'windlass_session=; Max-Age=0; Path=/' }]],
  ['GET', 'overview', 'viewer', mock => [200, overview(mock.store)]],
  ['POST', 'workers/*/drain', 'operator', drain],
  ['GET', 'queues', 'viewer', queuesOf],
  ['GET', 'queues/*', 'viewer', queueOf],
  ['POST', 'queues/*/pause', 'operator', pause(true)],
  ['POST', 'queues/*/resume', 'operator', pause(false)],
  ['PUT', 'queues/*/limits', 'admin', limits],
  ['GET', 'queues/*/key-limits', 'viewer', keyLimits],
  ['PUT', 'queues/*/key-limits', 'admin', limitKeys],
  ['DELETE', 'queues/*/key-limits', 'admin', unlimitKeys],
  ['PUT', 'queues/*/key-limits/*', 'admin', limitKeys],
  ['DELETE', 'queues/*/key-limits/*', 'admin', unlimitKeys],
  ['GET', 'jobs', 'viewer', (mock, _, __, query) => [200, page(mock, query)]],
  ['GET', 'jobs/*', 'viewer', (mock, [id]) => [200, shown(found(mock.store.jobs.get(id), `job ${id}`))]],
  ['GET', 'jobs/*/args', 'admin', (mock, [id]) => [200, { args: { ...found(mock.store.jobs.get(id), `job ${id}`).args, ...mock.store.jobs.get(id).secret } }]],
  ['POST', 'jobs/*/retry', 'operator', change('retry')],
  ['POST', 'jobs/*/cancel', 'operator', change('cancel')],
  ['DELETE', 'jobs/*', 'operator', change('delete')],
  ['PATCH', 'jobs/*', 'operator', edit],
  ['POST', 'bulk', 'operator', preview],
  ['GET', 'bulk/*', 'viewer', (mock, [id]) => [200, bare(found(mock.store.bulks.get(id), `bulk change ${id}`))]],
  ['POST', 'bulk/*/confirm', 'operator', confirm],
  ['DELETE', 'bulk/*', 'operator', (mock, [id]) => [204, void (found(mock.store.bulks.get(id), `bulk change ${id}`).state = 'stopped')]],
  ['GET', 'workers', 'viewer', mock => [200, { items: mock.store.workers.slice(0, 1_000), more: mock.store.workers.length > 1_000 }]],
  ['GET', 'schedules', 'viewer', schedules],
  ['GET', 'schedules/*', 'viewer', (mock, [name]) => [200, scheduleOf(mock, name)]],
  ['POST', 'schedules/*/run', 'operator', run],
  ['POST', 'schedules/*/pause', 'operator', setPaused(true)],
  ['POST', 'schedules/*/resume', 'operator', setPaused(false)],
  ['DELETE', 'schedules/*', 'admin', (mock, [name]) => [204, void mock.store.schedules.splice(mock.store.schedules.indexOf(scheduleOf(mock, name)), 1)]],
  ['GET', 'history', 'viewer', (mock, _, __, query) => [200, mock.store.queues.length ? history(mock.store, { ...query, last_s: Number(query.last_s), step_s: Number(query.step_s) }) : { step_ms: query.step_s * 1000, counted_until: iso(Date.now()), begins: null, series: [] }]],
  ['GET', 'timings', 'viewer', (mock, _, __, query) => [200, timings(mock.store, { ...query, last_s: Number(query.last_s), step_s: Number(query.step_s) })]],
  ['GET', 'failures', 'viewer', (mock, _, __, query) => [200, failures(mock.store, query)]],
  ['GET', 'marks', 'viewer', mock => [200, { items: mock.store.queues.length ? [{ at: iso(Date.now() - 23 * 60_000), label: 'release 4f2a9c1' }] : [] }]],
  ['GET', 'audit', 'admin', audit],
];

/** The route of a request, and what stands for its stars. */
export function route(method, path) {
  const parts = path.split('/').map(decodeURIComponent);
  for (const [verb, pattern, role, answer] of ROUTES) {
    const want = pattern.split('/');
    if (verb !== method || want.length !== parts.length || !want.every((part, i) => part === '*' || part === parts[i])) continue;
    return { role, answer, stars: parts.filter((_, i) => want[i] === '*') };
  }
  return refuse(404, 'not_found', 'Not found', `there is no ${method} ${path}`);
}

export function check(mock, role, known) {
  if (role === null) return;
  if (!known) refuse(401, 'permission_denied', 'Unauthorized', 'log in first');
  if (RANK[mock.role] < RANK[role] || (mock.readOnly && role !== 'viewer')) refuse(403, 'permission_denied', 'Forbidden', `this needs the role ${role}; you are ${mock.role}`);
}
