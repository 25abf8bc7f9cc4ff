// BullMQ on its PostgreSQL backend.
import { createPostgresBackend, runMigrations } from 'bullmq';
import pg from 'pg';
import { bullmqAdapter } from '../node/bullmq_adapter.mjs';

export const packageName = 'bullmq';

const bullmq = bullmqAdapter({
  connection: (connectionString, max) => ({ connectionString, max }),
  backend: [createPostgresBackend],
  tunedConcurrency: 20,
  poolOf: (name, size) => ({ [name]: size }),
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
  const client = new pg.Client(url);
  await client.connect();
  return bullmq.openStore(url, { analyze: () => client.query('ANALYZE'), close: () => client.end() });
}
