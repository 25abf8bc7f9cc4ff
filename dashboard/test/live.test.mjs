// What changes by itself: the stream, and what happens when it, or the server, is not there.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, until, useBrowser } from './browser.mjs';
import { serve } from './mock.mjs';

useBrowser();

const cell = page => page.locator('tr', { hasText: 'mail' }).first().locator('.q-avail');
const overviews = mock => mock.calls.filter(call => call.path === 'overview').length;

async function streaming(mock) {
  await until(() => mock.streams.size, n => n === 1, 'the number of streams');
}

test('figures follow the stream, without asking again', async t => {
  const { page, mock } = await open(t);
  await streaming(mock);
  await cell(page).waitFor();
  const before = overviews(mock);
  mock.store.queues[0].available = 777_777;
  mock.push();
  await until(() => cell(page).textContent(), text => text.includes('777,777'));
  assert.equal(overviews(mock), before);
  assert.equal(await page.locator('.live').textContent(), 'Live');
});

test('an answer that a frame has overtaken changes nothing', async t => {
  const { page, mock } = await open(t, { path: 'workers' });
  await streaming(mock);
  const release = mock.hold('queues/exports');
  await page.getByRole('link', { name: 'exports' }).click();
  await until(() => [...mock.streams].some(stream => stream.topics.includes('queue:exports')), is => is);
  await until(() => mock.calls.some(call => call.path === 'queues/exports'), is => is);
  mock.store.queues.find(queue => queue.name === 'exports').available = 444_444;
  mock.push();
  await page.getByText('444,444').first().waitFor();
  const answered = page.waitForResponse('**/queues/exports');
  release();
  await (await answered).finished();
  await page.evaluate(() => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.ok(await page.getByText('444,444').first().isVisible());
});

test('one stream serves a page, whatever it watches', async t => {
  const { page, mock } = await open(t, { path: 'queues/webhooks' });
  await page.getByRole('heading', { name: 'Limits', exact: true }).waitFor();
  await until(() => [...mock.streams].map(stream => [...stream.topics].sort().join()), all => all.length === 1 && all[0] === 'overview,queue:webhooks');
  await page.getByRole('link', { name: 'Workers' }).first().click();
  await until(() => [...mock.streams].map(stream => stream.topics.join()), all => all.length === 1 && all[0] === 'overview');
});

test('paused means that nothing is asked for', async t => {
  const { page, mock } = await open(t);
  await streaming(mock);
  await page.locator('main').focus();
  await page.keyboard.press('.');
  await until(() => mock.streams.size, n => n === 0);
  assert.equal(await page.locator('.live').textContent(), 'Paused');
  mock.store.queues[0].available = 666_666;
  await page.keyboard.press('.');
  await until(() => cell(page).textContent(), text => text.includes('666,666'));
});

test('where no stream passes, figures are asked for', async t => {
  const mock = await serve();
  t.after(() => mock.close());
  mock.stream = false;
  const { page } = await open(t, { mock });
  await until(() => page.locator('.live').textContent(), text => text === 'Polling');
  mock.store.queues[0].available = 555_555;
  await until(() => cell(page).textContent(), text => text.includes('555,555'));
});

test('a server that is gone is said, the figures stay, and it comes back', async t => {
  const { page, mock } = await open(t);
  await streaming(mock);
  await cell(page).waitFor();
  mock.fail('', 0);
  mock.hangUp();
  await page.getByText('The server does not answer').first().waitFor();
  assert.match(await page.locator('.stale').first().textContent(), /These figures are from .*it may be stopped/);
  assert.ok(await cell(page).isVisible());
  mock.heal();
  await page.locator('.stale').first().waitFor({ state: 'detached' });
});

test('a topic that fails says why, in the stream too', async t => {
  const { page, mock } = await open(t, { path: 'queues/exports' });
  await page.getByRole('heading', { name: 'Limits', exact: true }).waitFor();
  await streaming(mock);
  mock.store.queues = mock.store.queues.filter(queue => queue.name !== 'exports');
  mock.push();
  await page.getByText('there is no queue exports').waitFor();
});

test('the list of jobs follows by itself', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded&queue=media' });
  const rows = page.locator('table[data-list] tbody tr');
  const before = await until(() => rows.count(), n => n > 1);
  for (const job of mock.store.jobs.values()) if (job.state === 'discarded' && job.queue === 'media') job.state = 'available';
  await until(() => page.getByText('No job matches').count(), n => n === 1, `a list of ${before}`);
});
