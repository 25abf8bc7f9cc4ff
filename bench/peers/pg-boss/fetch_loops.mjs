// Loops over pg-boss's fetch() and complete(): faster for no-op jobs than work(), whose completion also
// checks that each job is still in the attempt that was fetched.
import { setTimeout as sleep } from 'node:timers/promises';

const LOOPS = 2;
const BATCH = 5_000;
const IDLE_MS = 5;

export class FetchLoops {
  settings = { loops: LOOPS, batchSize: BATCH, idle_ms: IDLE_MS };
  #stopping = false;
  #running = [];

  constructor(boss, queue, handle) {
    Object.assign(this, { boss, queue, handle });
  }

  start() {
    this.#running = Array.from({ length: LOOPS }, () => this.#loop());
    // Without its loops the worker is of no use: end it at once, so that the run fails.
    Promise.all(this.#running).catch(error => { console.error(error); process.exit(1); });
  }

  async stop() {
    this.#stopping = true;
    await Promise.all(this.#running);
  }

  async #loop() {
    while (!this.#stopping) {
      const jobs = await this.boss.fetch(this.queue, { batchSize: BATCH });
      if (jobs.length > 0) await this.#workOff(jobs);
      else await sleep(IDLE_MS);
    }
  }

  async #workOff(jobs) {
    const ids = jobs.map(job => job.id);
    try {
      await Promise.all(jobs.map(job => this.handle(job.data)));
    } catch (error) {
      await this.boss.fail(this.queue, ids, { message: error.message });
      return;
    }
    await this.boss.complete(this.queue, ids);
  }
}
