// pg-boss by its library API: send and insert to add jobs, work() to work them.
import { PgBoss } from 'pg-boss';
import { openPostgresStore } from '../node/postgres_store.mjs';

export const packageName = 'pg-boss';
export const bulkBatch = 10_000;
const QUEUE = 'noop';

/** Wakes workers by NOTIFY where they may run out of jobs. */
const notifies = profile => profile === 'latency' || profile === 'mixed';

async function open(url, options) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on('error', error => console.error(error));
  return boss;
}

export async function setUp(url, profile) {
  const boss = await open(url, { supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue(QUEUE, { notify: notifies(profile) });
  await boss.stop();
}

export async function openProducer(url, { clients }) {
  const boss = await open(url, { max: clients, supervise: false, schedule: false });
  await boss.start();
  return {
    settings: { producer_pool: clients, bulk: 'insert' },
    one: args => boss.send(QUEUE, args),
    many: list => boss.insert(QUEUE, list.map(data => ({ data }))),
    close: () => boss.stop(),
  };
}

function workOptions({ profile, concurrency }) {
  const T = JSON.parse(process.env.TRY ?? '{}');
  const burst = { burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  switch (profile) {
    case 'default': return {};
    case 'latency': return { pollingIntervalSeconds: 0.5, ...T };
    case 'work': return { ...burst, batchSize: 10, localConcurrency: concurrency / 10, ...T };
    default: return { ...burst, batchSize: 5_000, localConcurrency: 2, ...T };
  }
}

export async function openWorker(options, handle) {
  const settings = workOptions(options);
  const useListenNotify = notifies(options.profile);
  const boss = await open(options.url, { useListenNotify });
  await boss.start();
  return {
    settings: { pool: 10, useListenNotify, ...settings },
    start: () => boss.work(QUEUE, settings, jobs => Promise.all(jobs.map(job => handle(job.data)))),
    stop: () => boss.stop(),
  };
}

// Completed jobs stay; a failed or cancelled one is not completed.
export const openStore = url => openPostgresStore(url, "SELECT count(*) AS n FROM pgboss.job WHERE name = 'noop' AND state <> 'completed'");
