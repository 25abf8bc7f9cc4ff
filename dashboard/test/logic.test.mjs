// What needs no browser: filters as text, figures as text, the life of a job, counters as series.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const src = join(dirname(fileURLToPath(import.meta.url)), '../src');
let filter, format, life, history, charts;

async function load(name) {
  const { outputFiles } = await build({ entryPoints: [join(src, name)], bundle: true, format: 'esm', write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

before(async () => {
  globalThis.document = { baseURI: 'http://x/' };
  [filter, format, life, history, charts] = await Promise.all(['filter.ts', 'format.ts', 'life.ts', 'history.ts', 'charts.ts'].map(load));
});

test('whatever the server says became of a job is said in words', () => {
  const text = path => readFileSync(join(src, path), 'utf8');
  const said = [...text('act.ts').split('REPLIES')[1].matchAll(/^ {2}(\w+): '/gm)].map(([, reply]) => reply);
  const replies = JSON.parse(text('../../crates/windlass-server/src/openapi/schemas.json')).Reply.properties.reply.enum;
  assert.deepEqual(replies.filter(reply => !said.includes(reply)), []);
});

test('a filter is typed', () => {
  const { typed } = filter;
  assert.deepEqual(typed('queue:mail mail.send', { state: 'available' }), { filter: { state: 'available', queue: 'mail', kind: 'mail.send' } });
  assert.deepEqual(typed('tag:a:b', {}), { filter: { tag: 'a:b' } });
  assert.deepEqual(typed(' 48190412 ', {}), { job: '48190412' });
  assert.deepEqual(typed('id:7', {}), { job: '7' });
  assert.match(typed('queue:', {}).wrong, /has no value/);
  assert.match(typed('state:lost', {}).wrong, /lost is no state/);
  assert.match(typed('colour:x', {}).wrong, /not filtered by colour/);
  assert.deepEqual(typed('error:"HTTP 503" kind:a', {}), { filter: { error: 'HTTP 503', kind: 'a' } });
  assert.deepEqual(typed('error:timeout', {}), { filter: { error: 'timeout' } });
  assert.deepEqual(typed('args:{"to": {"plan": "p r}o"}, "ids": [1, 2]} queue:q', {}), { filter: { args: '{"to": {"plan": "p r}o"}, "ids": [1, 2]}', queue: 'q' } });
  assert.match(typed('args:{"a" 1}', {}).wrong, /no JSON object/);
  assert.match(typed('args:[1]', {}).wrong, /no JSON object/);
  assert.equal(filter.asText({ error: 'HTTP 503', args: { user: 7 } }), 'error:"HTTP 503" args:{"user":7}');
});

test('figures and times are short', () => {
  const { bytes, duration, figure, percent, rate, short, span } = format;
  assert.deepEqual([0, 999, 9_999, 12_345, 52_201, 999_999, 41_800_000].map(short), ['0', '999', '9,999', '12.3k', '52.2k', '1M', '41.8M']);
  assert.deepEqual([0, 18, 1_234, 24_000, 580_000, 6_720_000, 360_000_000].map(duration), ['0 ms', '18 ms', '1.2 s', '24 s', '9 m 40 s', '1 h 52 m', '4 d 4 h']);
  assert.deepEqual([0, 400, 1_900, 24_900].map(span), ['0 s', '0 s', '1 s', '24 s']);
  assert.deepEqual([0, 0.0533, 0.8, 3.14, 12.3, 4_812].map(rate), ['0', '0.053', '0.8', '3.1', '12', '4,812']);
  assert.deepEqual([0, 0.0381, 0.5].map(percent), ['0', '3.81 %', '50.0 %']);
  assert.deepEqual([bytes(312), bytes(18_400_000_000)], ['312 bytes', '17 GB']);
  assert.equal(figure(52_201, true), '≈ 52,201');
});

const at = minutes => new Date(minutes * 60_000).toISOString();
const job = more => ({ state: 'available', attempt: 0, enqueued_at: at(0), scheduled_at: null, claimed_at: null, finished_at: null, errors: [], ...more });
const spans = (job, now) => life.life(job, now * 60_000).spans.map(({ from, to, tone }) => [from / 60_000, to / 60_000, tone]);

test('the life of a job is what its record tells', () => {
  assert.deepEqual(spans(job({}), 5), [[0, 5, 'available']]);
  assert.deepEqual(spans(job({ state: 'running', attempt: 1, claimed_at: at(2) }), 5), [[0, 2, 'available'], [2, 5, 'running']]);
  assert.deepEqual(spans(job({ state: 'completed', attempt: 1, claimed_at: at(2), finished_at: at(3) }), 9), [[0, 2, 'available'], [2, 3, 'completed']]);
  // When attempt 1 began is not kept any more; when attempt 2 did, is.
  assert.deepEqual(spans(job({ state: 'running', attempt: 2, claimed_at: at(4), errors: [{ attempt: 1, at: at(2), error: 'x' }] }), 5), [[0, 2, 'available'], [2, 4, 'retryable'], [4, 5, 'running']]);
  // The last claim led to the last failure: waiting, the attempt, backoff up to now, and what is to come.
  const failed = job({ state: 'retryable', attempt: 1, claimed_at: at(1), scheduled_at: at(8), errors: [{ attempt: 1, at: at(2), error: 'x' }] });
  assert.deepEqual(spans(failed, 5), [[0, 1, 'available'], [1, 2, 'discarded'], [2, 5, 'retryable'], [5, 8, 'retryable']]);
  assert.deepEqual(spans(job({ state: 'scheduled', scheduled_at: at(60) }), 5), [[0, 5, 'scheduled'], [5, 60, 'scheduled']]);
  const whole = life.life(job({}), 0);
  assert.ok(whole.to > whole.from, 'no division by nothing');
});

test('counters become rates, and what is not counted yet is a gap', () => {
  const of = (outcome, counts) => ({ queue: 'q', kind: 'k', outcome, counts });
  const counted = { step_ms: 60_000, counted_until: at(10.5), begins: at(0), series: [of('completed', [[0, 60], [9, 120], [10, 30]]), of('failed', [[9, 6]])] };
  const grid = history.grid(counted, '15m', 12 * 60_000);
  const rates = grid.rates(history.isCompleted);
  assert.equal(grid.times.at(-1), 12 * 60_000);
  const minute = n => rates[grid.times.indexOf(n * 60_000)];
  assert.deepEqual([0, 1, 9, 10, 11, 12].map(minute), [1, 0, 2, 1, null, null]);
  assert.deepEqual(history.shares(counted, each => each.queue).get('q'), { completed: 210, failed: 6 });
  assert.equal(history.failing({ completed: 0, failed: 0 }), null);
});

test('a line has gaps, and bars of little can be seen', () => {
  const y = charts.linear(10);
  assert.equal(charts.line([0, 10, null, 5], y), 'M0 100L200 0M600 50h1');
  assert.equal(charts.area([null, null], y), '');
  assert.match(charts.bars([0.001, 0], y), /^M[\d.]+ 100V97H[\d.]+V100Z$/);
  assert.deepEqual([0.3, 11, 26, 2_250, 4_300, 8_100].map(value => charts.ceiling(value)), [1, 20, 40, 4_000, 6_000, 10_000]);
});
