// What bench/pages/run measures: the pages' own requests, taken down from a browser, then asked again without it.

import { parseArgs } from 'node:util';
import { Browser } from './browser.mjs';
import { Store } from './store.mjs';
import { replay, Viewers } from './viewers.mjs';

const number = given => ({ type: 'string', default: String(given) });
const { values } = parseArgs({ options: { waiting: number(10_000_000), drain: number(5_000_000), rounds: number(4), viewers: number(20), loads: number(20) } });
const options = Object.fromEntries(Object.entries(values).map(([name, given]) => [name, Number(given)]));
for (const [name, given] of Object.entries(options)) if (!(given >= 1)) throw new Error(`--${name} must be a number of at least 1`);

const say = text => process.stderr.write(`${text}\n`);
const ms = given => `${given.toFixed(1)} ms`;
const sorted = list => [...list].sort((one, other) => one - other);
const at = (list, part) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * part))];

const store = new Store();
const browser = new Browser();
try {
  say(`filling the store: ${options.waiting} waiting jobs of 20 queues, as many kinds, and some of each other state`);
  await store.fill(options.waiting, options.drain);
  const url = await store.serve();
  const pages = { overview: '', queues: 'queues', queue: 'queues/kept0', jobs: 'jobs', 'jobs of a queue': 'jobs?queue=kept1', completed: 'jobs?state=completed', discarded: 'jobs?state=discarded', job: `jobs/${store.job}`, workers: 'workers', schedules: 'schedules', audit: 'audit' };
  await browser.start();
  const asked = {};
  for (const [name, path] of Object.entries(pages)) asked[name] = await browser.requests(url + path);
  const watched = await browser.watch(url, 35_000);
  const paint = await browser.paints(url, options.loads);
  await browser.stop();
  console.log(`first paint of the overview, nothing else at work: p50 ${ms(at(paint, 0.5))}, slowest ${ms(at(paint, 1))}`);

  say('the requests of each page, one after the other, while jobs are worked');
  const times = {};
  for (let drains = 0; drains < 2; drains++) {
    const drained = store.drain(options.drain);
    let over = false;
    void drained.finally(() => (over = true));
    while (!over) for (const [name, requests] of Object.entries(asked)) if (!over) (times[name] ??= []).push(await replay(url, requests));
    await drained;
  }
  for (const [name, taken] of Object.entries(times)) console.log(`${name.padEnd(16)} ${asked[name].length} requests: p50 ${ms(at(taken, 0.5))}, p95 ${ms(at(taken, 0.95))}, slowest ${ms(at(taken, 1))} of ${taken.length}`);

  const rates = { alone: [], beside: [] }, cpu = { alone: [], beside: [] };
  for (let round = 0; round <= options.rounds; round++) {
    for (const which of round % 2 ? ['alone', 'beside'] : ['beside', 'alone']) {
      const viewers = which === 'beside' ? new Viewers(url, watched, options.viewers) : null;
      await viewers?.ready();
      const before = store.cpu();
      const { rate, seconds } = await store.drain(options.drain);
      const used = (store.cpu() - before) / seconds;
      await viewers?.end();
      if (round) rates[which].push(rate) && cpu[which].push(used);
      say(`${which}: ${Math.round(rate)} jobs/s, the server of pages used ${(used * 100).toFixed(1)} % of a core`);
    }
  }
  const ratios = rates.alone.map((rate, i) => rates.beside[i] / rate);
  console.log(`drain beside ${options.viewers} viewers of the overview: ${at(ratios, 0.5).toFixed(3)} of that alone (${at(ratios, 0).toFixed(3)} to ${at(ratios, 1).toFixed(3)}), ${Math.round(at(rates.alone, 0.5))} jobs/s alone; windlass serve uses ${(at(cpu.beside, 0.5) * 100).toFixed(1)} % of a core, ${(at(cpu.alone, 0.5) * 100).toFixed(1)} % without them`);
} finally {
  await browser.stop();
  await store.end();
}
