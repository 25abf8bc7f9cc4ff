// BullMQ by its library API, the same for both of its backends.
import { Queue, Worker } from 'bullmq';

const QUEUE = 'noop';
const MOST_CONNECTIONS = 20; // where the backend has a pool: more only wait for each other on few cores

// Its guide for production advises to remove completed jobs; by default it keeps them.
function workerOptions({ profile, concurrency, rate, tunedConcurrency }) {
  const removed = { removeOnComplete: { count: 0 } };
  switch (profile) {
    case 'default': return {};
    case 'latency': return removed;
    case 'work': return { ...removed, concurrency };
    case 'limited': return { ...removed, concurrency: tunedConcurrency, limiter: { max: rate, duration: 1_000 } };
    default: return { ...removed, concurrency: tunedConcurrency };
  }
}

/** `connection(url, size)` is what BullMQ connects with; `backend` are the trailing arguments that choose one. */
export function bullmqAdapter({ connection, backend, tunedConcurrency, poolOf }) {
  const openQueue = async (url, size) => {
    const queue = new Queue(QUEUE, { connection: connection(url, size) }, ...backend);
    queue.on('error', error => console.error(error));
    await queue.waitUntilReady();
    return queue;
  };

  return {
    async openProducer(url, { clients }) {
      const queue = await openQueue(url, clients);
      return {
        settings: { ...poolOf('producer_pool', clients), single: 'add', bulk: 'addBulk' },
        one: args => queue.add(QUEUE, args),
        many: list => queue.addBulk(list.map(data => ({ name: QUEUE, data }))),
        close: () => queue.close(),
      };
    },

    async openWorker(options, handle) {
      const settings = workerOptions({ ...options, tunedConcurrency });
      const pool = Math.max(10, Math.min(settings.concurrency ?? 1, MOST_CONNECTIONS));
      const worker = new Worker(QUEUE, job => handle(job.data), {
        autorun: false, connection: connection(options.url, pool), ...settings,
      }, ...backend);
      worker.on('error', error => console.error(error));
      worker.on('failed', (job, error) => console.error(`job ${job?.id} failed:`, error));
      await worker.waitUntilReady();
      return {
        settings: { ...poolOf('pool', pool), ...settings },
        start: async () => { worker.run().catch(error => { console.error(error); process.exit(1); }); },
        stop: () => worker.close(),
      };
    },

    /** What the queue itself says of jobs that are not completed; `analyze` is the backend's. */
    async openStore(url, { analyze, close }) {
      const queue = await openQueue(url, 1);
      const states = ['wait', 'active', 'delayed', 'paused', 'prioritized', 'waiting-children', 'failed'];
      return {
        analyze,
        unfinished: async () => Object.values(await queue.getJobCounts(...states)).reduce((a, b) => a + b, 0),
        close: async () => { await queue.close(); await close(); },
      };
    },
  };
}
