// The contract's `latency`: one job at a time, from the call of enqueue to the start of its handler, both
// in this process.
import { setTimeout as sleep } from 'node:timers/promises';
import { count, positive, url } from './settings.mjs';
import { settledAt } from './drain.mjs';
import { latencyFigures } from './percentiles.mjs';
import { Tally, verifyExactlyOnce } from './tally.mjs';

const WARM_UP = 200;
const LOST_MS = 60_000;

export async function latency(adapter) {
  const samples = positive('BENCH_SAMPLES');
  const gapMs = count('BENCH_GAP_MS', 0);
  const profile = count('BENCH_TUNED', 1) ? 'latency' : 'default';
  // By default a system may poll for seconds: a long warm-up would take minutes.
  const warmUp = profile === 'latency' ? WARM_UP : Math.min(WARM_UP, samples);
  await adapter.setUp(url(), profile);
  const tally = new Tally();
  tally.start(Date.now());
  let started;
  const worker = await adapter.openWorker({ url: url(), profile, processes: 1 }, async args => {
    const now = performance.now();
    tally.mark(args);
    started(now);
  });
  await worker.start();
  const producer = await adapter.openProducer(url(), { clients: 1 });

  const measured = [];
  for (let id = 0; id < warmUp + samples; id++) {
    const handler = new Promise(resolve => (started = resolve));
    const called = performance.now();
    const lost = setTimeout(() => fail(id), LOST_MS);
    await producer.one({ id });
    const at = await handler;
    clearTimeout(lost);
    if (id >= warmUp) measured.push((at - called) * 1000);
    const wait = called + gapMs - performance.now();
    if (wait > 0) await sleep(wait);
  }

  const store = await adapter.openStore(url());
  await settledAt(store);
  await worker.stop();
  verifyExactlyOnce([tally.snapshot()], warmUp + samples);
  await producer.close();
  await store.close();
  return {
    settings: { profile, gap_ms: gapMs, warm_up: warmUp, ...producer.settings, ...worker.settings },
    figures: latencyFigures(measured),
  };
}

function fail(id) {
  console.error(`latency: job ${id} was enqueued but no handler started within ${LOST_MS / 1000} s`);
  process.exit(1);
}
