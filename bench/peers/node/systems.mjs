// The systems that run on Node.js. Each folder holds an adapter with
//   packageName, bulkBatch, setUp(url, profile),
//   openProducer(url, { clients }) -> { settings, one(args), many(argsList), close() },
//   openWorker({ url, profile, processes, concurrency }, handle) -> { settings, start(), stop() },
//   openStore(url) -> { analyze(), unfinished(), close() }.
// Profiles: "enqueue" (no worker runs), "default", "tuned" (no-op jobs), "mixed" (the same, fed meanwhile),
// "work" (sleeping jobs at `concurrency`), "latency".

const SYSTEMS = ['graphile-worker', 'pg-boss', 'bullmq', 'bullmq-postgres'];

export async function adapterOf(system) {
  if (!SYSTEMS.includes(system)) throw new Error(`no Node peer ${JSON.stringify(system)}: there are ${SYSTEMS.join(', ')}`);
  return import(`../${system}/adapter.mjs`);
}
