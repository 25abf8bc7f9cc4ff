// BullMQ on Redis, through its default client ioredis.
import { bullmqAdapter } from '../node/bullmq_adapter.mjs';

export const packageName = 'bullmq';

const bullmq = bullmqAdapter({
  connection: url => ({ url, maxRetriesPerRequest: null }),
  backend: [],
  tunedConcurrency: 100,
  poolOf: () => ({}),
});

export const setUp = async () => {};
export const { openProducer, openWorker } = bullmq;

export const openStore = url => bullmq.openStore(url, { analyze: async () => {}, close: async () => {} });
