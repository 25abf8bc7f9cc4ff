// Numbers as they are written: those of users are theirs digit by digit, all others are figures.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, until, useBrowser } from './browser.mjs';
import { written } from './mock.mjs';

useBrowser();

const NUMBERS = ['12345678901234567.89', '0.12345678901234567890', '12345678901234567890', '1.0', '1e400', '-0', '7'];
const edits = mock => mock.calls.filter(call => call.method === 'PATCH');

/** A job that waits and has these numbers in its args, on its page. */
async function edit(page, mock, numbers) {
  const job = [...mock.store.jobs.values()].find(({ state }) => state === 'retryable');
  job.args = { text: 'before', deep: { numbers: numbers.map(written) } };
  await page.goto(`${mock.url}jobs/${job.id}`);
  await page.getByRole('button', { name: 'Edit…' }).click();
  return page.getByLabel('Args, JSON');
}

test('an edit of args leaves every number that nobody touched as it is written', async t => {
  const { page, mock } = await open(t);
  const field = await edit(page, mock, NUMBERS);
  const text = await field.inputValue();
  assert.deepEqual(JSON.parse(text.replaceAll(/(-?\d[\d.e]*)/g, '"$1"')).deep.numbers, NUMBERS);
  assert.equal(await page.locator('pre.json').first().textContent(), text, 'they are shown so, too');
  if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT });
  await field.fill(text.replace('before', 'after'));
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(edits(mock)[0].text, `{"args":{"text":"after","deep":{"numbers":[${NUMBERS}]}}}`);
});

test('a browser that rounds numbers refuses to write them back', async t => {
  const { page, mock } = await open(t);
  // As Firefox before 135 and Safari before 18.4: they neither tell how a number is written nor can write it so.
  await page.addInitScript(() => {
    delete JSON.rawJSON;
    delete JSON.isRawJSON;
    const { parse } = JSON;
    JSON.parse = (text, revive) => parse(text, revive && function (key, value) {
      return revive.call(this, key, value);
    });
  });
  for (const number of ['12345678901234567.89', '12345678901234567890', '1e400']) {
    const field = await edit(page, mock, [number, '7']);
    await field.fill((await field.inputValue()).replace('before', 'after'));
    await page.getByRole('button', { name: 'Change' }).click();
    await page.getByText('This browser rounds long numbers and fractions').waitFor();
  }
  if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT.replace('.png', '-rounds.png') });
  assert.equal(edits(mock).length, 0);
  const field = await edit(page, mock, ['7', '-9007199254740991']);
  await field.fill((await field.inputValue()).replace('before', 'after'));
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(edits(mock)[0].text, '{"args":{"text":"after","deep":{"numbers":[7,-9007199254740991]}}}');
});

test('figures are counted with however they are written', async t => {
  const { page, mock } = await open(t);
  const job = mock.store.jobs.get('48190412'), queue = mock.store.queues.find(({ name }) => name === 'webhooks');
  job.report.progress.percent = written('71.0');
  job.report.checkpoint = { at: written('0.50') };
  queue.rate.claimed = written('2.50');
  await page.goto(`${mock.url}jobs/48190412`);
  for (const part of ['71 %', '0.50']) await until(() => page.locator('main').innerText(), text => text.includes(part), part);
  await page.goto(`${mock.url}queues/webhooks`);
  const started = () => page.locator('.stat', { hasText: 'Started' }).locator('dd').first().textContent();
  await until(started, text => text.startsWith('2.5'));
  await until(() => mock.streams.size, n => n === 1);
  queue.rate.claimed = written('40.0');
  mock.push();
  await until(started, text => text.startsWith('40'));
});
