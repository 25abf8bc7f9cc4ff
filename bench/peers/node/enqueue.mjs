// Enqueues jobs by concurrent clients that share one row of ids.
import { positive, url } from './settings.mjs';
import { perSecond, seconds } from './rate.mjs';

/** Enqueues ids `from` .. `from + jobs - 1`; returns the milliseconds it took. */
export async function enqueueAll(producer, { from = 0, jobs, clients, batch }) {
  let next = from;
  const end = from + jobs;
  const client = async () => {
    while (next < end) {
      const first = next;
      next = Math.min(end, first + batch);
      if (batch === 1) await producer.one({ id: first });
      else await producer.many(argsOf(first, next));
    }
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: clients }, client));
  return performance.now() - start;
}

export const argsOf = (first, end) => Array.from({ length: end - first }, (_, i) => ({ id: first + i }));

/** The contract's `enqueue`. */
export async function enqueue(adapter) {
  const jobs = positive('BENCH_JOBS');
  const clients = positive('BENCH_CLIENTS', 1);
  const batch = positive('BENCH_BATCH', 1);
  await adapter.setUp(url(), 'enqueue');
  const producer = await adapter.openProducer(url(), { clients });
  const store = await adapter.openStore(url());
  const ms = await enqueueAll(producer, { jobs, clients, batch });
  const stored = await store.unfinished();
  await producer.close();
  await store.close();
  if (stored !== jobs) throw new Error(`enqueued ${jobs} jobs, the store holds ${stored}`);
  return {
    settings: { clients, batch, ...producer.settings },
    figures: { enqueued_per_second: perSecond(jobs, ms), enqueued_seconds: seconds(ms) },
  };
}
