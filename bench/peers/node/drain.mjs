// The contract's `drain`, `work`, `serial` and `limited`: jobs are enqueued first, then worker processes handle them all.
import { setTimeout as sleep } from 'node:timers/promises';
import { count, positive, url } from './settings.mjs';
import { enqueueAll } from './enqueue.mjs';
import { perSecond, seconds } from './rate.mjs';
import { addSeries, verifyExactlyOnce } from './tally.mjs';
import { Workers } from './workers.mjs';

const STALL_SECONDS = 60;

export function drain(adapter, system) {
  const processes = positive('BENCH_PROCESSES', 1);
  const profile = count('BENCH_TUNED', 1) ? 'tuned' : 'default';
  return workThrough(adapter, { system, processes, options: { url: url(), profile, processes } });
}

export function work(adapter, system) {
  const sleepMs = count('BENCH_SLEEP_MS', 10);
  const concurrency = positive('BENCH_CONCURRENCY');
  return workThrough(adapter, { system, processes: 1, sleepMs, options: { url: url(), profile: 'work', concurrency } });
}

/** The jobs of a key run one after the other. */
export function serial(adapter, system) {
  return workThrough(adapter, { system, processes: 1, options: { url: url(), profile: 'serial', processes: 1, keys: positive('BENCH_KEYS') } });
}

/** So many jobs start in a second. */
export function limited(adapter, system) {
  return workThrough(adapter, { system, processes: 1, options: { url: url(), profile: 'limited', processes: 1, rate: positive('BENCH_RATE') } });
}

async function workThrough(adapter, spec) {
  const jobs = positive('BENCH_JOBS');
  await adapter.setUp(url(), spec.options.profile);
  const producer = await adapter.openProducer(url(), { clients: 1, keys: spec.options.keys });
  const enqueueMs = await enqueueAll(producer, { jobs, clients: 1, batch: adapter.bulkBatch });
  await producer.close();
  const store = await adapter.openStore(url());
  await store.analyze();

  const workers = await Workers.open(spec);
  const start = performance.now();
  workers.go();
  await workers.until(() => workers.handled >= jobs, STALL_SECONDS);
  const ms = (await settledAt(store)) - start;
  const tallies = await workers.stop();
  verifyExactlyOnce(tallies, jobs);
  await store.close();

  return {
    settings: { profile: spec.options.profile, processes: spec.processes, sleep_ms: spec.sleepMs ?? 0, keys: spec.options.keys, ...workers.settings },
    figures: {
      completed_per_second: perSecond(jobs, ms),
      completed_seconds: seconds(ms),
      per_second: addSeries(tallies),
      enqueued_per_second: perSecond(jobs, enqueueMs),
    },
  };
}

/** Waits until the store holds no unfinished job. The answer that says so is a snapshot of when it was asked. */
export async function settledAt(store) {
  const deadline = performance.now() + STALL_SECONDS * 1000;
  for (;;) {
    const asked = performance.now();
    const left = await store.unfinished();
    if (left === 0) return asked;
    if (asked > deadline) throw new Error(`every job was handled, but after ${STALL_SECONDS} s the store holds ${left} unfinished ones`);
    await sleep(1);
  }
}
