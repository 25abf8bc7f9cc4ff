// BullMQ on Redis, through its default client ioredis.
import { Redis } from 'ioredis';
import { bullmqAdapter } from '../node/bullmq_adapter.mjs';

export const packageName = 'bullmq';

const bullmq = bullmqAdapter({
  connection: url => ({ url, maxRetriesPerRequest: null }),
  backend: [],
  tunedConcurrency: 100,
  poolOf: () => ({}),
});

/** Nothing to create; but BullMQ would wait for ever for a server that is not there. */
export async function setUp(url) {
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  redis.on('error', () => {}); // ping tells
  try {
    await redis.ping();
  } catch (error) {
    throw new Error(`no Redis answers at ${url}: ${error.message}`);
  } finally {
    redis.disconnect();
  }
}

export const { openProducer, openWorker } = bullmq;

export const openStore = url => bullmq.openStore(url, { analyze: async () => {}, close: async () => {} });
