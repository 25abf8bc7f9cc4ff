// Workers that take jobs. `windlass serve` registers one that takes none: it looks after the workers that come by HTTP.

import type { WorkerRecord } from './api/schema';

export const takesJobs = (worker: WorkerRecord): boolean => worker.queues.length > 0;
export const isAtWork = (worker: WorkerRecord): boolean => worker.live && takesJobs(worker);
