// pg-boss by its library API: send and insert to add jobs; work() to work them, or fetch and complete in
// loops of our own where that is faster.
import { PgBoss } from 'pg-boss';
import { openPostgresStore } from '../node/postgres_store.mjs';
import { FetchLoops } from './fetch_loops.mjs';
import { limited } from './limited.mjs';

export const packageName = 'pg-boss';
const QUEUE = 'noop';
const POOL = 10; // its default, written down

function open(url, options) {
  const boss = new PgBoss({ connectionString: url, max: POOL, ...options });
  boss.on('error', error => console.error(error));
  return boss;
}

export async function setUp(url, profile) {
  const boss = open(url, { supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue(QUEUE, { notify: profile === 'latency', ...(profile === 'serial' && { policy: 'key_strict_fifo' }) });
  await boss.stop();
}

export async function openProducer(url, { clients, keys }) {
  const boss = open(url, { max: clients, supervise: false, schedule: false });
  await boss.start();
  return {
    settings: { producer_pool: clients, single: 'send', bulk: 'insert' },
    one: args => boss.send(QUEUE, args),
    many: list => boss.insert(QUEUE, list.map(data => ({ data, ...(keys && { singletonKey: `key-${data.id % keys}` }) }))),
    close: () => boss.stop(),
  };
}

export async function openWorker(options, handle) {
  const { profile, concurrency } = options;
  const boss = open(options.url, { useListenNotify: profile === 'latency' });
  await boss.start();
  switch (profile) {
    case 'default': return worker(boss, handle, {});
    case 'latency': return worker(boss, handle, { pollingIntervalSeconds: 0.5 }, { useListenNotify: true });
    // A batch is completed as a whole. With more batches in hand than may run, slots never wait for a fetch.
    case 'work': return worker(boss, limited(handle, concurrency),
      { batchSize: concurrency, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
      { handlers_at_once: concurrency });
    default: return fetchLoops(boss, handle);
  }
}

function worker(boss, handle, workOptions, also = {}) {
  return {
    settings: { api: 'work', pool: POOL, ...also, ...workOptions },
    start: () => boss.work(QUEUE, workOptions, jobs => Promise.all(jobs.map(job => handle(job.data)))),
    stop: () => boss.stop(),
  };
}

function fetchLoops(boss, handle) {
  const loops = new FetchLoops(boss, QUEUE, handle);
  return {
    settings: { api: 'fetch and complete', pool: POOL, ...loops.settings },
    start: async () => loops.start(),
    stop: async () => { await loops.stop(); await boss.stop(); },
  };
}

// Completed jobs stay; a failed or cancelled one is not completed.
export const openStore = url =>
  openPostgresStore(url, `SELECT count(*) AS n FROM pgboss.job WHERE name = '${QUEUE}' AND state <> 'completed'`);
