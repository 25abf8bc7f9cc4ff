// BullMQ on its PostgreSQL backend.
import { createPostgresBackend, runMigrations } from 'bullmq';
import pg from 'pg';
import { bullmqAdapter } from '../node/bullmq_adapter.mjs';
import { openPostgresStore } from '../node/postgres_store.mjs';

export const packageName = 'bullmq';
export const bulkBatch = 10_000;

const bullmq = bullmqAdapter({
  connection: (connectionString, max) => ({ connectionString, max }),
  backend: [createPostgresBackend],
  tunedConcurrency: 20,
  poolOf: (name, size) => ({ [name]: size ?? 10 }),
});

export async function setUp(url) {
  const pool = new pg.Pool({ connectionString: url });
  const client = await pool.connect();
  await runMigrations(client);
  client.release();
  await pool.end();
}

export const { openProducer, openWorker } = bullmq;

export async function openStore(url) {
  const [counts, outside] = [await bullmq.openQueueCounts(url), await openPostgresStore(url, 'SELECT 0 AS n')];
  return {
    analyze: outside.analyze,
    unfinished: counts.unfinished,
    close: async () => { await counts.close(); await outside.close(); },
  };
}
