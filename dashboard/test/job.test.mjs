// One job: what is said of it, and what can be done with it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings, open, until, useBrowser } from './browser.mjs';

useBrowser();

const first = (mock, state) => [...mock.store.jobs.values()].find(job => job.state === state && job.kind.startsWith('webhook'));
const asked = (mock, method, path) => mock.calls.filter(call => call.method === method && call.path === path);

test('attempts, progress, log and details are there', async t => {
  const { page } = await open(t, { path: 'jobs/48190412' });
  await page.getByText('Attempt 1 failed').waitFor();
  for (const part of ['EncoderError: moov atom not found', 'src/encode/segment.rs:142', '1 worker died', '62 %', 'segment 255 of 412', 'audio drift 41 ms', '12 older ones dropped', 'encode/8841/1080p', '45 m an attempt', 'exponential, 15 s to 1 h', 'media-1', 'Publish video 8841']) {
    await until(() => page.locator('main').innerText(), text => text.includes(part), `“${part}”`);
  }
  await page.getByRole('group', { name: 'Attempt' }).getByRole('button', { name: '1', exact: true }).click();
  assert.equal(await page.locator('.log li').count(), 2);
});

test('hidden values are shown after a question, and only to an admin', async t => {
  const { page, mock } = await open(t, { path: 'jobs/48190412' });
  await page.getByText('43 characters hidden').waitFor();
  await page.getByRole('button', { name: 'Reveal…' }).click();
  await page.getByLabel('Why, for the audit log').fill('wrong token?');
  assert.equal(asked(mock, 'GET', 'jobs/48190412/args').length, 0);
  await page.getByRole('button', { name: 'Reveal', exact: true }).click();
  await page.getByText('ut_5f1c2b7a9d0e4c8f').waitFor();
  assert.deepEqual(asked(mock, 'GET', 'jobs/48190412/args')[0].query, { reveal: '1', reason: 'wrong token?' });
});

test('an operator has no way to reveal', async t => {
  const { page } = await open(t, { path: 'jobs/48190412', role: 'operator' });
  await page.getByRole('button', { name: 'Cancel…' }).waitFor();
  assert.equal(await page.getByText('Reveal').count(), 0);
});

test('a job is retried, and the page follows it', async t => {
  const { page, mock } = await open(t);
  const job = first(mock, 'retryable');
  await page.goto(`${mock.url}jobs/${job.id}`);
  await page.getByRole('button', { name: 'Retry now' }).click();
  await page.getByText('Available now').waitFor();
  await page.locator('h1 .badge.available').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Retry now' }).count(), 0);
});

test('cancel asks first', async t => {
  const { page, mock } = await open(t, { path: 'jobs/48190412' });
  await page.getByRole('button', { name: 'Cancel…' }).click();
  await page.getByText('Its handler is told to stop').waitFor();
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(asked(mock, 'POST', 'jobs/48190412/cancel').length, 0);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Cancel…', 'the focus is back');
  await page.getByRole('button', { name: 'Cancel…' }).click();
  await page.getByRole('button', { name: 'Cancel it' }).click();
  await page.getByText('Its worker is told to stop').waitFor();
});

test('an edit sends what is different, and says what is wrong', async t => {
  const { page, mock } = await open(t);
  const job = first(mock, 'retryable');
  await page.goto(`${mock.url}jobs/${job.id}`);
  await page.getByRole('button', { name: 'Edit…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Args, JSON').fill('{"endpoint":');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await dialog.getByText('The args are not JSON').waitFor();
  await dialog.getByLabel('Args, JSON').fill('{"endpoint":"https://elsewhere.example","n":12345678901234567890}');
  await dialog.getByLabel('Priority').fill('-5');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await dialog.waitFor({ state: 'detached' });
  const raw = asked(mock, 'PATCH', `jobs/${job.id}`)[0];
  assert.deepEqual(Object.keys(raw.body).sort(), ['args', 'priority']);
  assert.ok(raw.text.includes('12345678901234567890'), 'digits beyond 2^53 are kept');
  await page.getByText('https://elsewhere.example').waitFor();
});

test('what the server refuses is said in its words, and the dialog stays', async t => {
  const { page, mock } = await open(t);
  await page.goto(`${mock.url}jobs/${first(mock, 'retryable').id}`);
  await page.getByRole('button', { name: 'Edit…' }).click();
  await page.getByLabel('Attempts in all').fill('21');
  mock.fail('jobs/', 503);
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByText('the store does not answer; it may be starting').first().waitFor();
  assert.ok(await page.getByRole('dialog').isVisible());
});

test('a deleted job leads back to its list', async t => {
  const { page, mock } = await open(t);
  const job = first(mock, 'discarded');
  await page.goto(`${mock.url}jobs/${job.id}`);
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('button', { name: 'Delete it' }).click();
  await page.waitForURL('**/jobs?state=discarded&queue=*');
  assert.ok(!mock.store.jobs.has(job.id));
});

test('a job that is not there is no error', async t => {
  const { page } = await open(t, { path: 'jobs/1' });
  await page.getByText('There is no job 1').waitFor();
});

test('the page follows the job by itself', async t => {
  const { page, mock } = await open(t, { path: 'jobs/48190412' });
  await page.getByText('62 %').waitFor();
  await until(() => mock.streams.size, n => n === 1);
  Object.assign(mock.store.jobs.get('48190412').report.progress, { percent: 71, note: 'segment 290 of 412' });
  mock.push();
  await page.getByText('segment 290 of 412').waitFor();
});
