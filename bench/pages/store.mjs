// A database with much in it, the server of its pages, and drains of other jobs in it.

import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);
const { BUILT, WINDLASS_TEST_PGBIN, WINDLASS_TEST_POSTGRES } = process.env;
const BATCH = 100_000;
/** Clock ticks in a second, as Linux counts processor time. */
const TICKS = 100;
const SCHEDULED = 100_000;
/** Each of them is a program that is run. */
const FAILING = 2_000;
const KINDS = 50;
const QUEUES = 20;
/** What a day of work in all these queues leaves in the counters and timings, of which pages draw their charts: they are written as housekeeping does. */
const DAY = `
  INSERT INTO windlass.counter (minute, queue, kind, outcome, n)
    SELECT date_trunc('minute', now()) - make_interval(mins => m), 'kept' || q, 'kind' || k, o, 100
    FROM generate_series(1, 60) m, generate_series(0, ${QUEUES - 1}) q, generate_series(0, ${KINDS - 1}, 5) k, unnest('{completed,failed}'::text[]) o;
  INSERT INTO windlass.timing (at, n, queue, kind, wait, run)
    SELECT date_trunc('hour', now()) - make_interval(mins => 15 * m), 100, 'kept' || q, 'kind' || k, '{"20": 60, "24": 30, "40": 10}', '{"30": 50, "33": 50}'
    FROM generate_series(1, 96) m, generate_series(0, ${QUEUES - 1}) q, generate_series(0, ${KINDS - 1}, 5) k`;

export class Store {
  url = WINDLASS_TEST_POSTGRES;

  async fill(waiting, drained) {
    await this.cli('migrate');
    // States that are come by: discarded by what fails, completed by a drain, scheduled.
    const job = (i, more) => ({ kind: `kind${i % KINDS}`, args: { tenant: i % 1_000 }, queue: `kept${i % QUEUES}`, ...more });
    await this.enqueue(FAILING, i => job(i, { queue: 'failing', max_attempts: 1 }));
    await this.cli('work', '--exec', 'false', '--queue', 'failing', '--until-empty');
    await this.drain(drained);
    for (let i = 0; i < QUEUES; i++) await this.enqueue(1, () => job(i)).then(() => this.cli('queues', 'pause', `kept${i}`));
    await this.enqueue(waiting, i => job(i));
    await this.enqueue(SCHEDULED, i => job(i, { delay_ms: 86_400_000 }));
    await run(`${WINDLASS_TEST_PGBIN}/psql`, ['-q', '-v', 'ON_ERROR_STOP=1', '-c', DAY, this.url]);
    this.job = (await this.cli('jobs', 'list', '--queue', 'kept3', '--limit', '1', '--json')).match(/"id":\s*"?(\d+)/)[1];
  }

  /** Jobs by lines of JSON. */
  async enqueue(count, job) {
    const child = spawn(`${BUILT}/windlass`, ['enqueue', '--many', '-', '--store', this.url], { stdio: ['pipe', 'ignore', 'inherit'] });
    const ended = new Promise(resolve => child.once('close', resolve));
    for (let from = 0; from < count; from += BATCH) {
      const lines = Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => JSON.stringify(job(from + i)));
      if (!child.stdin.write(`${lines.join('\n')}\n`)) await new Promise(resolve => child.stdin.once('drain', resolve));
    }
    child.stdin.end();
    if (await ended) throw new Error('windlass enqueue failed');
  }

  /** Works so many other jobs; how many in a second, and how long all of it took. */
  async drain(jobs) {
    const begun = performance.now();
    const { stdout } = await run(`${BUILT}/windlass-bench`, ['drain', '--jobs', String(jobs), '--store', this.url, '--json']);
    return { rate: JSON.parse(stdout).figures.completed_per_second, seconds: (performance.now() - begun) / 1_000 };
  }

  async cli(...words) {
    return (await run(`${BUILT}/windlass`, [...words, '--store', this.url])).stdout;
  }

  /** Starts `windlass serve`; its address. */
  async serve() {
    this.server = spawn(`${BUILT}/windlass`, ['serve', '--listen', '127.0.0.1:0', '--store', this.url], { stdio: ['ignore', 'pipe', 'pipe'] });
    return new Promise((resolve, reject) => {
      let said = '';
      const look = part => {
        said += part;
        const found = said.match(/http:\/\/127\.0\.0\.1:\d+\//);
        if (found) resolve(found[0]);
      };
      this.server.stdout.on('data', look);
      this.server.stderr.on('data', look);
      this.server.once('close', () => reject(new Error(`windlass serve ended: ${said}`)));
    });
  }

  /** Seconds of a processor that the server of pages has used. */
  cpu() {
    const fields = readFileSync(`/proc/${this.server.pid}/stat`, 'utf8').replace(/.*\)/, '').trim().split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  }

  async end() {
    if (!this.server) return;
    this.server.removeAllListeners('close');
    const ended = new Promise(resolve => this.server.once('close', resolve));
    this.server.kill('SIGTERM');
    await ended;
  }
}
