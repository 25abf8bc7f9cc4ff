// Every page in both themes and sizes: it is there, fits, complains of nothing, and axe finds nothing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findings, open, overflow, settled, SIZES, useBrowser } from './browser.mjs';
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
        if ((size === 'phone') === (theme === 'dark')) found.push(...(await findings(page)).map(text => `${path || '/'}: ${text}`));
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

test('charts are read point by point with the arrow keys', async t => {
  const { page } = await open(t, { mock });
  await page.getByRole('img', { name: /Jobs completed per second/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('PageUp');
  assert.match(await page.textContent('.chart-tip'), /\d\d:\d\d:\d\dcompleted[\d,.]+ \/s/);
  assert.match(await page.textContent('#say'), /completed [\d,.]+ \/s/);
});

test('an entry of the audit log leads to what was changed', async t => {
  const { page, mock: { url } } = await open(t, { path: 'audit', mock });
  await page.getByRole('link', { name: '/queues/webhooks/limits' }).first().click();
  await page.waitForURL(`${url}queues/webhooks`);
});

test('another range of history is asked for', async t => {
  const { page, mock } = await open(t);
  await page.getByRole('button', { name: '24h' }).click();
  await page.getByRole('button', { name: '24h', pressed: true }).waitFor();
  await settled(page);
  assert.ok(mock.calls.some(({ path, query }) => path === 'history' && query.last_s === '86400' && query.step_s === '900'));
});
