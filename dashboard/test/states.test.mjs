// Nothing there, not to be had, and what users wrote: on every page.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings, open, overflow, settled, useBrowser } from './browser.mjs';
import { empty, MARKUP } from './mock/data.mjs';
import { serve } from './mock.mjs';

useBrowser();

const EMPTY = [['', 'No queue yet'], ['queues', 'No queue yet'], ['queues/none', 'There is no queue none'], ['jobs', 'No job is here'], ['jobs/1', 'There is no job 1'], ['workers', 'No worker registered lately'], ['schedules', 'No schedule yet'], ['audit', 'Nobody has changed anything yet'], ['nowhere', 'There is no page here']];

test('an empty store is no error', async t => {
  const { page, mock } = await open(t, { store: empty() });
  for (const [path, text] of EMPTY) {
    await page.goto(mock.url + path);
    await page.getByText(text).waitFor();
    await settled(page);
    assert.equal(await page.getByRole('alert').count(), 0, path);
    assert.equal(await overflow(page), null, path);
  }
  assert.deepEqual(await findings(page), []);
});

const BROKEN = [['', 'overview', 'The overview cannot be read'], ['queues/mail', 'queues', 'Queue mail cannot be read'], ['jobs', 'jobs', 'The jobs cannot be listed'], ['jobs/48190412', 'jobs', 'Job 48190412 cannot be read'], ['schedules', 'schedules', 'The schedules cannot be read'], ['audit', 'audit', 'The audit log cannot be read']];

test('a store that does not answer is said, on every page', async t => {
  const { page, mock } = await open(t);
  mock.stream = false;
  for (const [path, call, text] of BROKEN) {
    mock.heal();
    mock.fail(call, 503);
    await page.goto(mock.url + path);
    await page.getByText(text).waitFor();
    assert.match(await page.getByRole('alert').first().textContent(), /Service unavailable.*The store does not answer; it may be starting\./s, path);
  }
  assert.deepEqual(await findings(page), []);
});

test('counters that fail leave the rest of the page', async t => {
  const mock = await serve();
  t.after(() => mock.close());
  mock.fail('history', 503);
  const { page } = await open(t, { mock });
  await page.getByText('The counters cannot be read').waitFor();
  assert.ok(await page.getByRole('link', { name: 'webhooks' }).first().isVisible());
  mock.heal();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('img', { name: /Jobs completed per second/ }).waitFor();
});

test('a server that is not there at all', async t => {
  const mock = await serve();
  t.after(() => mock.close());
  mock.fail('', 0);
  const { page } = await open(t, { mock });
  await page.getByText('Windlass cannot be reached: The server does not answer').waitFor();
  mock.heal();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Needs a look').waitFor();
});

test('markup of users is text', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded&queue=default' });
  const job = [...mock.store.jobs.values()].find(each => each.kind.startsWith('evil'));
  Object.assign(mock.store.queues[0], { name: MARKUP });
  Object.assign(mock.store.workers[0], { name: MARKUP, queues: [MARKUP] });
  mock.store.needs.unshift({ what: 'paused', queue: MARKUP, count: 1 }, { what: MARKUP, queue: MARKUP });
  Object.assign(mock.store.schedules[0], { name: MARKUP, source: MARKUP, error: MARKUP });
  Object.assign(mock.store.audit[0], { actor: MARKUP, target: MARKUP, reason: MARKUP, action: MARKUP });
  for (const path of ['', 'queues', `queues/${encodeURIComponent(MARKUP)}`, 'jobs?state=discarded&queue=default', `jobs?kind=${encodeURIComponent(MARKUP)}`, `jobs/${job.id}`, 'workers', 'schedules', `schedules?name=${encodeURIComponent(MARKUP)}`, 'audit']) {
    await page.goto(mock.url + path);
    await page.waitForFunction(() => document.querySelector('main .panel'));
    await settled(page);
    assert.ok((await page.locator('body').innerText()).includes('<b>bold</b>'), `${path} shows it as it is`);
    assert.equal(await page.locator('main img, main b:text-is("bold"), main script').count(), 0, path);
    assert.equal(await page.locator('a[href^="javascript"]').count(), 0, path);
    assert.equal(await overflow(page), null, path);
  }
});

for (const size of ['desktop', 'phone']) {
  test(`names as long as they may be leave room for what stands beside them, ${size}`, async t => {
    const { page, mock } = await open(t, { size, path: 'queues' });
    const [long, version, kind] = ['q'.repeat(128), `v${'2'.repeat(199)}`, `${'🚀שלום'.repeat(12)}`];
    Object.assign(mock.store.queues[0], { name: long, available: 7, paused: false });
    Object.assign(mock.store.workers[0], { name: 'w'.repeat(200), program: long, app_version: version, queues: ['w'.repeat(128)] });
    const job = [...mock.store.jobs.values()].find(each => each.state === 'discarded');
    Object.assign(job, { kind, key: kind, tags: [long, kind], claimed_by: mock.store.workers[0].id, reason: `${'no space '.repeat(40)}\n`.repeat(30) });
    Object.assign(mock.store.schedules[0], { name: long });
    Object.assign(mock.store.schedules[0].definition, { kind: 'k'.repeat(200), queue: long });
    const first = 'no space left '.repeat(10).trim();
    job.errors = [{ attempt: 1, at: job.enqueued_at, error: `${first}\nat line 7` }];
    for (const path of ['', 'queues', `queues/${long}`, 'jobs?state=discarded', `jobs/${job.id}`, 'workers', 'schedules', 'audit']) {
      await page.goto(mock.url + path);
      await page.waitForFunction(() => document.querySelector('main .panel'));
      await settled(page);
      assert.equal(await overflow(page), null, path);
    }
    await page.goto(mock.url + 'queues');
    await settled(page);
    const row = page.getByRole('row').filter({ hasText: long });
    for (const cell of [row.getByText('no worker'), row.locator('.q-avail')]) {
      const box = await cell.boundingBox();
      assert.ok(box && box.x + box.width <= page.viewportSize().width, `${JSON.stringify(box)} is on the screen`);
    }
    await page.goto(mock.url + 'workers');
    await settled(page);
    const waits = page.locator('.sum li').filter({ hasText: long }).locator('b');
    const box = await waits.boundingBox();
    assert.ok(box && box.x + box.width <= page.viewportSize().width, `${JSON.stringify(box)}: how many wait is on the screen`);
    await page.goto(mock.url + `jobs/${job.id}`);
    await settled(page);
    const more = await page.locator('.more').first().boundingBox();
    assert.ok(more && more.height < 200, `the reason is ${more?.height} px high: the whole error is below it`);
    // Of several lines the first one, too, which does not fit above.
    assert.ok((await page.getByRole('region', { name: 'The whole error' }).first().innerText()).startsWith(first));
  });
}

for (const size of ['desktop', 'phone']) {
  test(`a kind as long as it may be stays in its panel, ${size}`, async t => {
    const { page, mock } = await open(t, { size });
    await page.route('**/api/v1/history?*', async route => {
      const response = await route.fetch(), said = await response.json();
      for (const each of said.series) if (each.kind) each.kind = each.kind.padEnd(200, 'k');
      await route.fulfill({ response, json: said });
    });
    await page.goto(mock.url + 'queues/webhooks');
    await page.getByText('webhook.deliverkkk').waitFor();
    await settled(page);
    assert.equal(await overflow(page), null);
    const figures = page.getByRole('row').filter({ hasText: 'webhook.deliverkkk' }).locator('.num');
    assert.equal(await figures.count(), 2);
    for (const figure of await figures.all()) {
      const [box, panel] = [await figure.boundingBox(), await figure.locator('xpath=ancestor::section').boundingBox()];
      assert.ok(box && panel && box.x + box.width <= panel.x + panel.width + 1, `${JSON.stringify(box)} is in ${JSON.stringify(panel)}`);
    }
  });
}

test('beside another panel the queues of the overview have room for their names', async t => {
  const { page, mock } = await open(t);
  const [limited, paused] = mock.store.queues;
  Object.assign(limited, { limits: { concurrency: 1_000_000 } });
  Object.assign(paused, { paused: true });
  for (const width of [1010, 1100, 1200, 1280, 1340]) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto(mock.url);
    const table = page.locator('.cards-queues');
    await table.waitFor();
    await settled(page);
    const [box, panel] = [await table.boundingBox(), await table.locator('xpath=..').boundingBox()];
    assert.ok(box.width <= panel.width, `at ${width} px the table has ${box.width} px of ${panel.width}`);
    for (const { name } of [limited, paused]) {
      const link = page.locator('.q-name').getByRole('link', { name, exact: true });
      assert.ok(await link.evaluate(link => link.scrollWidth <= link.clientWidth), `at ${width} px all of ${name} is shown`);
    }
  }
});

test('a mark of writing direction turns nothing around that stands behind it', async t => {
  const { page, mock } = await open(t, { path: 'workers' });
  const job = [...mock.store.jobs.values()].find(each => each.state === 'discarded');
  Object.assign(job, { kind: 'bill\u202egpj.exe', key: 'k\u202ek', tags: ['vip'], reason: null });
  /** Whether a text is drawn from left to right, where its last letters stand. */
  const isForward = (selector, text) => page.evaluate(([selector, text]) => {
    for (const element of document.querySelectorAll(selector)) {
      const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const at = node.data.indexOf(text);
        if (at < 0) continue;
        const left = index => {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + 1);
          return range.getBoundingClientRect().left;
        };
        return left(at) < left(at + text.length - 1);
      }
    }
    return `no ${text}`;
  }, [selector, text]);
  await page.goto(mock.url + 'jobs?tag=vip');
  await page.getByText('vip').last().waitFor();
  await settled(page);
  assert.equal(await isForward('.j-args', 'vip'), true);
  Object.assign(job, { reason: 'bad name x\u202egpj.exe\nsecond line' });
  await page.goto(mock.url + `jobs/${job.id}`);
  await page.getByText('second line').waitFor();
  assert.equal(await isForward('.events', 'second line'), true);
});
