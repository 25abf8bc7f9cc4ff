// The keyboard alone.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, findings, goByKeys, open, until, useBrowser } from './browser.mjs';

useBrowser();

test('g and a letter go to a page', async t => {
  const { page } = await open(t);
  for (const [key, path] of [['w', 'workers'], ['s', 'schedules'], ['j', 'jobs'], ['q', 'queues'], ['a', 'audit'], ['o', '']]) {
    await goByKeys(page, key);
    await page.waitForURL(`**/${path}`);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the focus is on the new page');
  }
});

test('the palette finds pages, queues, jobs and commands', async t => {
  const { page, mock } = await open(t);
  await page.getByText('Needs a look').waitFor();
  await page.keyboard.press('/');
  await page.getByRole('option', { name: 'Overview' }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.keyboard.type('queue media');
  await page.locator('[role="option"][aria-selected="true"]', { hasText: 'Queue media' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/queues/media');
  await ask(page, '48190412', 'Job 48190412');
  await page.waitForURL('**/jobs/48190412');
  await ask(page, 'pause queue mail', 'Pause queue mail');
  await until(() => mock.store.queues[0].paused, paused => paused === true);
  await page.getByText('Queue mail is paused').waitFor();
  await page.keyboard.press('Control+k');
  await page.locator('#palette input:focus').waitFor();
  await page.keyboard.type('zzzz');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});

test('? explains, t changes the theme and keeps it', async t => {
  const { page } = await open(t);
  await page.keyboard.press('?');
  await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light', 'keys of the page wait for the dialog');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
});

test('rows are walked, selected and opened', async t => {
  const { page } = await open(t, { path: 'jobs?state=retryable' });
  await page.locator('table[data-list] tbody tr').first().waitFor();
  for (const key of ['j', 'j', 'j', 'k', 'x']) await page.keyboard.press(key);
  await page.locator('tr.at[aria-selected="true"]').waitFor();
  assert.equal(await page.locator('tr[aria-selected="true"]').count(), 1);
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'Retry 1 job?' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('x');
  await page.locator('.bulk').waitFor({ state: 'detached' });
  const id = await page.locator('tr.at .mono').first().textContent();
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/jobs/${id}`);
});

test('everything is reached with Tab, and the first stop skips to the content', async t => {
  const { page } = await open(t, { path: 'workers' });
  await page.getByText('media-2').first().waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
});
