// The contract's `mixed`: one producer keeps a bounded backlog filled while one tuned worker process works it.
import { positive, url } from './settings.mjs';
import { settledAt } from './drain.mjs';
import { argsOf } from './enqueue.mjs';
import { perSecond } from './rate.mjs';
import { addSeries, verifyExactlyOnce } from './tally.mjs';
import { Workers } from './workers.mjs';

const STALL_SECONDS = 120;

export async function mixed(adapter, system) {
  const duration = positive('BENCH_SECONDS');
  const backlog = positive('BENCH_BACKLOG', 20_000);
  const batch = Math.min(adapter.bulkBatch, Math.max(1, Math.floor(backlog / 4)));
  await adapter.setUp(url(), 'mixed');
  const producer = await adapter.openProducer(url(), { clients: 1 });
  const workers = await Workers.open({ system, processes: 1, options: { url: url(), profile: 'mixed', processes: 1 } });

  const end = workers.go() + duration * 1000;
  let enqueued = 0;
  while (Date.now() < end) {
    await workers.until(() => enqueued + batch - workers.handled <= backlog || Date.now() >= end, STALL_SECONDS);
    if (Date.now() >= end) break;
    await producer.many(argsOf(enqueued, enqueued + batch));
    enqueued += batch;
  }
  await workers.until(() => workers.handled >= enqueued, STALL_SECONDS);
  const store = await adapter.openStore(url());
  await settledAt(store);
  const tallies = await workers.stop();
  verifyExactlyOnce(tallies, enqueued);
  await producer.close();
  await store.close();

  // The rest of the backlog is worked off after the time is up; only what was handled in time counts.
  const series = addSeries(tallies).slice(0, duration);
  while (series.length < duration) series.push(0);
  const handled = series.reduce((a, b) => a + b, 0);
  return {
    settings: { backlog, producer_batch: batch, ...producer.settings, ...workers.settings },
    figures: { completed_per_second: perSecond(handled, duration * 1000), per_second: series },
  };
}
