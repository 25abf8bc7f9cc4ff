// Starts worker processes, follows what they handle, and stops them.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ENTRY = fileURLToPath(new URL('./worker_process.mjs', import.meta.url));

class WorkerProcess {
  handled = 0;
  onProgress = () => {};
  #child;
  #waiting;

  constructor(job) {
    this.#child = fork(ENTRY, { serialization: 'advanced', stdio: ['ignore', 2, 2, 'ipc'] });
    this.#child.on('message', message => this.#receive(message));
    this.ended = new Promise((resolve, reject) => this.#child.on('exit', (code, signal) => {
      if (code === 0) return resolve();
      reject(new Error(`a worker process ended with ${signal ?? `exit code ${code}`}: see its messages above`));
    }));
    this.ended.catch(() => {}); // whoever waits for it sees it
    this.#child.send(job);
  }

  #receive(message) {
    if (message.handled !== undefined) {
      this.handled = message.handled;
      this.onProgress();
    } else this.#waiting(message);
  }

  #answer() {
    return Promise.race([new Promise(resolve => (this.#waiting = resolve)), this.ended]);
  }

  async ready() {
    return (await this.#answer()).ready;
  }

  go(epoch) {
    this.#child.send({ go: epoch });
  }

  async stop() {
    const answer = this.#answer();
    this.#child.send({ stop: true });
    const { tally } = await answer;
    await this.ended;
    return tally;
  }

  kill() {
    this.#child.kill('SIGKILL');
  }
}

export class Workers {
  settings;
  #processes = [];
  #onProgress = () => {};

  /** Processes that are connected and wait for go(). */
  static async open({ system, options, processes, sleepMs = 0 }) {
    const workers = new Workers();
    for (let i = 0; i < processes; i++) workers.#processes.push(new WorkerProcess({ system, options, sleepMs }));
    process.on('exit', () => workers.#processes.forEach(p => p.kill()));
    [workers.settings] = await Promise.all(workers.#processes.map(p => p.ready()));
    for (const p of workers.#processes) p.onProgress = () => workers.#onProgress();
    return workers;
  }

  /** Starts all of them; returns the time of Date.now() that their seconds count from. */
  go() {
    const epoch = Date.now();
    for (const p of this.#processes) p.go(epoch);
    return epoch;
  }

  get handled() {
    return this.#processes.reduce((sum, p) => sum + p.handled, 0);
  }

  /** Waits for `enough()`; fails when a worker ends or `stallSeconds` pass in which nothing is handled. */
  async until(enough, stallSeconds) {
    while (!enough()) {
      const { handled } = this;
      let timer;
      const progress = new Promise(resolve => (this.#onProgress = resolve));
      const stalled = new Promise((_, reject) => (timer = setTimeout(
        () => reject(new Error(`${handled} jobs were handled, then none for ${stallSeconds} s`)), stallSeconds * 1000)));
      try {
        await Promise.race([progress, stalled, ...this.#processes.map(p => p.ended)]);
      } finally {
        clearTimeout(timer);
      }
    }
  }

  /** Stops them gracefully; returns their tallies. */
  stop() {
    return Promise.all(this.#processes.map(p => p.stop()));
  }
}
