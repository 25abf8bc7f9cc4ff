// Every page over the real server with real jobs, in both themes and sizes: what is in the store is there, fits, and is readable. Each store shows
// each size and each theme; of their four pairs two are of one store and two of the other.

import assert from 'node:assert/strict';
import { findings, overflow, settled, SIZES, until, useBrowser } from './browser.mjs';
import { overStores, STORES, visit } from './server.mjs';
import { stock } from './stock.mjs';

useBrowser();

/** Whether this pair is of this store, where there are two. */
const shows = (kind, size, theme) => STORES.length === 1 || ((size === 'phone') === (theme === 'dark')) === (kind === 'sqlite');

/** Each page, its title, and what has to be on it. */
const pages = ({ completed, retryable, discarded, running, available, scheduled, held, cancelled }) => [
  ['', 'Overview', ['Needs a look', 'imports', 'mail', 'media', 'reports', 'Failures by kind', '1 live worker', '1 cancelled']],
  ['queues', 'Queues', ['imports', 'paused', 'mail', 'media', 'reports', 'no worker']],
  ['queues/media', 'media', ['1 live worker', 'php-7', 'Kinds', 'video.encode', 'video.thumbnail', 'no limit']],
  ['queues/imports', 'imports', ['paused', 'No worker takes these jobs']],
  ['jobs', 'Jobs', ['video.encode', 'video.thumbnail', 'mail.send', 'report.build', 'import.row', 'mail.digest']],
  ['jobs?state=available&queue=mail', 'Jobs', ['mail.send', 'b@shop.example']],
  ['jobs?state=scheduled', 'Jobs', [scheduled, 'report.build']],
  ['jobs?state=retryable', 'Jobs', [retryable, 'video.thumbnail']],
  ['jobs?state=discarded', 'Jobs', [discarded, 'video.publish']],
  ['jobs?state=cancelled', 'Jobs', [cancelled, 'mail.digest']],
  ['jobs?state=completed', 'Jobs', [completed, 'video.encode']],
  ['jobs?tag=vip', 'Jobs', [completed]],
  [`jobs/${completed}`, `Job ${completed}`, ['completed', 'Result', 'https://cdn.example/8841.mp4', '12.5', 'vip', '19 characters hidden']],
  [`jobs/${retryable}`, `Job ${retryable}`, ['retryable', 'EncoderError: moov atom not found', 'Attempt 1 failed', 'Retry now', 'attempt 1 of 5']],
  [`jobs/${discarded}`, `Job ${discarded}`, ['discarded', 'there is no video 8843']],
  [`jobs/${running}`, `Job ${running}`, ['running', 'php-7', 'encode/8844', '45 m an attempt', 'north']],
  [`jobs/${available}`, `Job ${available}`, ['available', 'a@shop.example', '16 characters hidden', '-5']],
  [`jobs/${scheduled}`, `Job ${scheduled}`, ['scheduled', '2026-10', 'Available from', 'Run now']],
  [`jobs/${held}`, `Job ${held}`, ['available', 'import.row']],
  ['workers', 'Workers', ['php-7', 'live', 'media', 'Queues without a worker', 'reports', '1 job later', 'looks after HTTP workers']],
  ['schedules?name=nightly.report', 'Schedules', ['nightly.report', '0 3 * * *', 'Europe/Berlin', 'Next ticks', 'nightly']],
  ['audit', 'Audit log', ['the-admin', 'queues.pause', 'schedules.put', 'jobs.enqueue', 'jobs.cancel']],
];

overStores((real, test) => {
  for (const size of Object.keys(SIZES)) {
    for (const theme of ['light', 'dark'].filter(theme => shows(real.kind, size, theme))) {
      test(`every page of real jobs, ${size}, ${theme}`, async t => {
        const { page } = await visit(t, real.server, { size, theme });
        await page.getByText('Needs a look').waitFor();
        const found = [];
        for (const [path, title, parts] of pages(real.stock)) {
          await page.goto(real.server.url + path);
          await page.waitForFunction(() => document.querySelector('main .panel'));
          await settled(page);
          for (const part of parts) await until(() => page.locator('main').innerText(), text => text.includes(part), `“${part}” at /${path}`);
          await until(() => page.title(), is => is === `${title} · Windlass`, `the title of /${path}`);
          assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
          assert.equal(await page.getByRole('alert').count(), 0, `an alert at /${path}`);
          assert.equal(await overflow(page), null, `/${path}`);
          // What axe reads is the same over the other store, and takes it longer than all else here.
          if (real.kind === 'sqlite') found.push(...(await findings(page)).map(text => `/${path}: ${text}`));
        }
        assert.deepEqual(found, []);
      });
    }
  }

  test('each count of the overview leads to as many jobs', async t => {
    const { page } = await visit(t, real.server);
    await page.getByText('Needs a look').waitFor();
    const hrefs = await page.locator('main a[href*="jobs?"]').evaluateAll(all => all.map(each => [each.getAttribute('href'), each.textContent.match(/\d+/)?.[0]]));
    const counted = hrefs.filter(([, n]) => n !== undefined);
    assert.ok(counted.length >= 8, JSON.stringify(hrefs));
    for (const [href, n] of counted) {
      const items = (await real.server.api('GET', `${href}`)).items;
      assert.equal(items.length, Number(n), `${href} says ${n}`);
    }
  });

  test('the number of a job is found by the filter and the palette', async t => {
    const { page } = await visit(t, real.server, { path: 'jobs' });
    await page.fill('.query input', real.stock.discarded);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: /video.publish/ }).waitFor();
    await page.keyboard.press('/');
    await page.locator('#palette input:focus').waitFor();
    await page.keyboard.type('queue reports');
    await page.locator('[role="option"][aria-selected="true"]', { hasText: 'Queue reports' }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/queues/reports');
    await page.getByRole('heading', { name: 'Limits', exact: true }).waitFor();
  });
}, stock);
