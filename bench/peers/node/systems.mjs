// The systems that run on Node.js. Each folder holds an adapter with
//   packageName, setUp(url, profile),
//   openProducer(url, { clients }) -> { settings, one(args), many(argsList), close() },
//   openWorker({ url, profile, processes, concurrency }, handle) -> { settings, start(), stop() },
//   openStore(url) -> { analyze(), unfinished(), close() }.
// Profiles: "enqueue" (no worker runs), "default", "tuned" (no-op jobs), "mixed" (the same, fed meanwhile),
// "work" (sleeping jobs at `concurrency`), "latency".

import { readFileSync } from 'node:fs';

const SYSTEMS = ['graphile-worker', 'pg-boss', 'bullmq', 'bullmq-postgres'];

/** The adapter of a system, with the batch that its peer.json names. */
export async function adapterOf(system) {
  if (!SYSTEMS.includes(system)) throw new Error(`no Node peer ${JSON.stringify(system)}: there are ${SYSTEMS.join(', ')}`);
  const adapter = await import(`../${system}/adapter.mjs`);
  return { ...adapter, bulkBatch: peerOf(system).bulk_batch };
}

/** What peer.json says of a system. */
export const peerOf = system => JSON.parse(readFileSync(new URL(`../${system}/peer.json`, import.meta.url), 'utf8'));
