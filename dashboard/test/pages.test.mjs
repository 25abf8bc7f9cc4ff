// Every page in both themes and sizes: it is there, fits, complains of nothing, and axe finds nothing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ask, findings, open, overflow, settled, SIZES, useBrowser } from './browser.mjs';
import { serve } from './mock.mjs';

const PAGES = [
  ['', 'Overview', 'Needs a look'], ['queues', 'Queues', 'webhooks'], ['queues/webhooks', 'webhooks', 'Limits'], ['jobs', 'Jobs', 'webhook.deliver'], ['jobs?state=retryable&queue=webhooks', 'Jobs', 'webhook.replay'],
  ['jobs/48190412', 'Job 48190412', 'segment 255 of 412'], ['workers', 'Workers', 'media-2'], ['schedules?name=fx.rates', 'Schedules', 'Next ticks'], ['audit', 'Audit log', 'm.okafor'],
];

useBrowser();
let mock;
before(async () => (mock = await serve()));
after(() => mock.close());

for (const size of Object.keys(SIZES)) {
  for (const theme of ['light', 'dark']) {
    test(`every page, ${size}, ${theme}`, async t => {
      const { page } = await open(t, { size, theme, mock });
      const found = [];
      for (const [path, title, text] of PAGES) {
        await page.goto(mock.url + path);
        await page.getByText(text).first().waitFor();
        await settled(page);
        assert.equal(await page.title(), `${title} · Windlass`);
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
        assert.equal(await overflow(page), null, path);
        found.push(...(await findings(page)).map(text => `${path || '/'}: ${text}`));
      }
      assert.deepEqual(found, []);
    });
  }
}

test('every page fits 320 px, and what is between phone and desktop', async t => {
  const { page } = await open(t, { mock });
  for (const [path, , text] of PAGES) {
    await page.goto(mock.url + path);
    await page.getByText(text).first().waitFor();
    await settled(page);
    for (const width of [320, 768, 1024, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      assert.equal(await overflow(page), null, `${path} at ${width} px`);
    }
  }
});

test('jobs that no worker knows are said on the overview and on the page of their queue', async t => {
  const { page } = await open(t, { mock });
  await page.goto(mock.url);
  await page.getByRole('link', { name: 'No worker of billing knows the kind of 12 jobs' }).click();
  await page.waitForURL(/jobs\?.*queue=billing/);
  await page.goto(`${mock.url}queues/billing`);
  await page.getByText('12 of kinds that no worker knows').waitFor();
});

test('the workers page says which queues have jobs that no worker knows, and for how long', async t => {
  const { page } = await open(t, { path: 'workers' });
  const panel = page.locator('.panel', { hasText: 'Kinds that no worker knows' });
  await panel.waitFor();
  assert.match(await panel.innerText(), /billing\s+12 jobs, for 14 m/);
  assert.deepEqual(await findings(page), []);
});

test('a worker says what it runs, does and uses; what it does not say is a dash', async t => {
  const { page } = await open(t, { path: 'workers' });
  const cells = async name => (await page.locator('table.cards-workers tbody tr', { hasText: name }).locator('td').allInnerTexts()).map(text => text.trim());
  await page.getByText('hooks.jobs:app 2.4.0').waitFor();
  const of = async name => { const all = await cells(name); return [all[2], all[4], all[7]]; };
  assert.deepEqual(await of('hooks-1'), ['hooks.jobs:app 2.4.0', '1,071', '388 MB']);
  assert.deepEqual(await of('search-1'), ['search.php', '0.25', '–']);
  assert.deepEqual(await of('media-3'), ['–', '–', '–']);
  assert.deepEqual(await of('media-2'), ['shop 2.4.1', '–', '–'], 'it is gone');
  assert.deepEqual(await findings(page), []);
});

test('of thousands of workers it is said that not all are listed', async t => {
  const { page } = await open(t, { mock });
  const before = mock.store.workers;
  t.after(() => (mock.store.workers = before));
  mock.store.workers = Array.from({ length: 1_001 }, (_, n) => ({ ...before[0], id: n + 100, name: `crowd-${n}` }));
  await page.goto(`${mock.url}workers`);
  await page.getByText('of the first 1,000: not all are listed').waitFor();
});

test('of thousands of queues the busiest are shown, and the others found by name', async t => {
  const { page } = await open(t, { mock });
  const before = mock.store.queues;
  t.after(() => (mock.store.queues = before));
  mock.store.queues = [...before, ...Array.from({ length: 1_000 }, (_, n) => ({ ...before[0], name: `tenant-${String(n).padStart(4, '0')}`, available: n, running: 0, scheduled: 0, retryable: 0 }))];
  await page.goto(`${mock.url}queues`);
  await page.getByText(`the 200 with the most to do, of ${(1_000 + before.length).toLocaleString('en-US')}`).waitFor();
  const names = () => page.locator('td.q-name .name').allTextContents();
  assert.equal((await names()).length, 200);
  await page.getByRole('searchbox', { name: "Part of a queue's name" }).fill('TENANT-01');
  await page.getByText('tenant-0100').waitFor();
  assert.deepEqual([(await names()).length, (await names()).at(-1)], [100, 'tenant-0199']);
  await page.getByRole('searchbox').fill('no such queue');
  await page.getByText('No queue has this in its name').waitFor();
  await page.getByRole('searchbox').fill('');
  await page.getByRole('link', { name: 'All by name' }).click();
  await page.getByRole('link', { name: 'More' }).click();
  await page.getByText('tenant-0150').waitFor();
  assert.ok(!(await names()).includes('tenant-0001'));
  await page.getByRole('link', { name: 'First page' }).click();
  await page.getByText('tenant-0001').waitFor();
  assert.deepEqual(await findings(page), []);
  // The palette does not have it, but knows where it is found.
  await ask(page, 'tenant-0003', 'Queues with “tenant-0003” in their name');
  await page.waitForURL('**/queues?search=tenant-0003&by=name');
  await page.getByText('tenant-0003').waitFor();
});

test('many schedules come page by page, and what is open stays in its page', async t => {
  const { page } = await open(t, { mock });
  const before = mock.store.schedules;
  t.after(() => (mock.store.schedules = before));
  mock.store.schedules = Array.from({ length: 120 }, (_, n) => ({ ...before[0], name: `nightly-${String(n).padStart(3, '0')}` }));
  await page.goto(`${mock.url}schedules`);
  await page.getByText('50, and more').waitFor();
  await page.getByRole('link', { name: 'More' }).click();
  await page.getByText('nightly-050').waitFor();
  await page.keyboard.press(']');
  await page.getByText('nightly-119').waitFor();
  assert.equal(await page.getByRole('link', { name: 'More' }).count(), 0);
  await page.getByRole('link', { name: 'nightly-110' }).click();
  await page.getByText('Next ticks').waitFor();
  assert.equal(await page.locator('td.s-name .name').count(), 20);
  assert.deepEqual(await findings(page), []);
  await page.getByRole('link', { name: 'Back' }).click();
  await page.getByText('nightly-050').waitFor();
  await page.getByRole('link', { name: 'First page' }).click();
  await page.getByText('nightly-000').waitFor();
});

test('a later page that is opened by its address leads to the first one by its key', async t => {
  const { page } = await open(t, { mock });
  const before = mock.store.schedules;
  t.after(() => (mock.store.schedules = before));
  mock.store.schedules = Array.from({ length: 60 }, (_, n) => ({ ...before[0], name: `nightly-${String(n).padStart(3, '0')}` }));
  await page.goto(`${mock.url}workers`);
  await page.goto(`${mock.url}schedules?after=nightly-049`);
  await page.getByText('nightly-050').waitFor();
  await page.keyboard.press('[');
  await page.getByText('nightly-000').waitFor();
  assert.equal(new URL(page.url()).search, '');
});

test('what is told of all queues is not told of the listed ones only', async t => {
  const { page } = await open(t, { mock });
  const before = mock.store.queues;
  t.after(() => (mock.store.queues = before));
  const idle = { ...before[0], running: 0, scheduled: 0, retryable: 0, paused: false, oldest_available_at: null };
  const forgotten = { ...idle, name: 'forgotten', available: 1, paused: true, oldest_available_at: '2020-01-01T00:00:00Z' };
  mock.store.queues = [...Array.from({ length: 300 }, (_, n) => ({ ...idle, name: `busy-${n}`, available: 1_000 + n })), forgotten];
  await page.goto(mock.url);
  await page.getByText('the 200 with the most to do, of 301, 1 paused').waitFor();
  assert.equal(await page.locator('a.name', { hasText: 'forgotten' }).count(), 0);
  await page.getByRole('link', { name: 'forgotten' }).first().waitFor();
});

test('a job that is a part of a trace links to it', async t => {
  const { page } = await open(t, { mock, path: 'jobs/48190412' });
  const link = page.getByRole('link', { name: 'trace', exact: true });
  await link.waitFor();
  assert.equal(await link.getAttribute('href'), 'https://traces.example.com/0af7651916cd43dd8448eb211c80319c');
  const other = [...mock.store.jobs.values()].find(job => job.meta === null);
  await page.goto(`${mock.url}jobs/${other.id}`);
  await page.getByRole('heading', { name: other.kind }).waitFor();
  assert.equal(await link.count(), 0);
});

test('charts are read point by point with the arrow keys', async t => {
  const { page } = await open(t, { mock });
  await page.getByRole('img', { name: /Jobs completed per second/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('PageUp');
  assert.match(await page.textContent('.chart-tip'), /\d\d:\d\d:\d\dcompleted[\d,.]+ \/s/);
  assert.match(await page.textContent('#say'), /completed [\d,.]+ \/s/);
});

test('a point of another day says which', async t => {
  const { page } = await open(t);
  await page.getByRole('region', { name: 'Throughput' }).getByRole('button', { name: '30d' }).click();
  const chart = page.getByRole('img', { name: /Jobs completed per second/ });
  await chart.focus();
  await page.keyboard.press('Home');
  const day = /\w{3},? \d+ \w{3}, \d\d:\d\d:\d\d/;
  assert.match(await page.textContent('.chart-tip'), day);
  assert.match(await page.textContent('#say'), day);
});

test('an entry of the audit log leads to what was changed', async t => {
  const { page, mock: { url } } = await open(t, { path: 'audit', mock });
  await page.getByRole('link', { name: '/queues/webhooks/limits' }).first().click();
  await page.waitForURL(`${url}queues/webhooks`);
});

test('another range of history is asked for', async t => {
  const { page, mock } = await open(t);
  for (const [panel, asked] of [['Throughput', 'history'], ['Wait and run', 'timings']]) {
    const region = page.getByRole('region', { name: panel });
    await region.getByRole('button', { name: '24h' }).click();
    await region.getByRole('button', { name: '24h', pressed: true }).waitFor();
    await settled(page);
    assert.ok(mock.calls.some(({ path, query }) => path === asked && query.last_s === '86400' && query.step_s === '900'), asked);
  }
});

test('what workers measured is drawn, and failures lead to their jobs', async t => {
  const { page, mock: { url } } = await open(t, { mock });
  const chart = page.getByRole('img', { name: /How long jobs waited and ran/ });
  assert.match(await chart.getAttribute('aria-label'), /Now run [\d.]+ s, wait [\d.]+ s/);
  const why = page.getByRole('region', { name: 'Why attempts failed' });
  assert.match(await why.innerText(), /ffmpeg ended with code 1\s+video.encode in media[\s\S]*31/);
  await why.getByText('the text is gone').waitFor();
  assert.match(await page.getByRole('region', { name: 'Throughput' }).innerText(), /release 4f2a9c1/);
  await why.getByRole('link', { name: /upstream answered 503/ }).click();
  await page.waitForURL(`${url}jobs/*`);
});
