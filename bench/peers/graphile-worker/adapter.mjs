// Graphile Worker by its library API: makeWorkerUtils to add jobs, run() with a preset to work them.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { openPostgresStore } from '../node/postgres_store.mjs';

export const packageName = 'graphile-worker';
const TASK = 'noop';

// Its log tells of each job; only what went wrong is of interest here.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});

export async function setUp(url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.release();
}

export async function openProducer(url, { clients, keys }) {
  const utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: clients, logger });
  return {
    settings: { producer_pool: clients, single: 'addJob', bulk: 'addJobs' },
    one: args => utils.addJob(TASK, args),
    many: list => utils.addJobs(list.map(payload => ({ identifier: TASK, payload, ...queueOf(payload, keys) }))),
    close: () => utils.release(),
  };
}

/** The jobs of a named queue run one after the other. */
const queueOf = ({ id }, keys) => (keys ? { queueName: `key-${id % keys}` } : {});

const BATCHED = { completeJobBatchDelay: 0, failJobBatchDelay: 0 };

/** A pool of two more than the concurrency is what its documentation advises. */
function presetFor({ profile, processes, concurrency }) {
  switch (profile) {
    case 'default': return {};
    case 'latency': return { concurrentJobs: 10, maxPoolSize: 12, ...BATCHED };
    case 'work': return {
      concurrentJobs: concurrency, maxPoolSize: Math.max(10, concurrency + 2), localQueue: { size: 5 * concurrency }, ...BATCHED,
    };
    default: return {
      concurrentJobs: 24, maxPoolSize: 26, localQueue: { size: processes > 1 ? 20_000 : 5_000 }, ...BATCHED,
    };
  }
}

export async function openWorker(options, handle) {
  const settings = presetFor(options);
  let runner;
  return {
    settings,
    start: async () => {
      runner = await run({
        preset: { worker: { connectionString: options.url, ...settings } },
        taskList: { [TASK]: handle },
        noHandleSignals: true,
        logger,
      });
    },
    stop: () => runner.stop(),
  };
}

// Completed jobs are deleted, so whatever is there is unfinished.
export const openStore = url => openPostgresStore(url, 'SELECT count(*) AS n FROM graphile_worker._private_jobs');
