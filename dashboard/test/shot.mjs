// Pictures of every page over the mock server, in both themes and sizes, to be looked at.
//
//   node test/shot.mjs FOLDER [PAGE,PAGE] [--full]

import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { SIZES } from './browser.mjs';
import { empty } from './mock/data.mjs';
import { serve } from './mock.mjs';

const [folder, only] = process.argv.slice(2).filter(word => !word.startsWith('--'));
if (!folder) throw new Error('say into which folder: node test/shot.mjs FOLDER');
const fullPage = process.argv.includes('--full');

const PAGES = {
  overview: '', queues: 'queues', queue: 'queues/webhooks', jobs: 'jobs?state=retryable&queue=webhooks', job: 'jobs/48190412', workers: 'workers', schedules: 'schedules?name=fx.rates', audit: 'audit', login: '',
  confirm: 'jobs?state=retryable&queue=webhooks', edit: 'jobs?state=retryable&queue=webhooks', edited: 'jobs?state=retryable&queue=webhooks', drain: 'workers', palette: '', keys: '', failed: 'jobs', empty: '',
};

/** What is done on a page before the picture. */
const STEPS = {
  async confirm(page) {
    await page.getByRole('checkbox').nth(1).check();
    await page.getByRole('checkbox').nth(2).check();
    await page.getByRole('button', { name: 'Select all that match' }).click();
    await page.getByRole('button', { name: /Retry…/ }).click();
    await page.getByText('to confirm').waitFor();
  },
  async edit(page) {
    for (const n of [1, 2]) await page.getByRole('checkbox').nth(n).check();
    await page.getByRole('button', { name: /^Edit…/ }).click();
    await page.getByRole('dialog').waitFor();
  },
  async edited(page) {
    await STEPS.edit(page);
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Priority, lower runs first').fill('-5');
    await dialog.getByRole('button', { name: 'Preview…' }).click();
    await dialog.getByRole('heading', { name: 'Edit 2 jobs?' }).waitFor();
  },
  async drain(page) {
    await page.getByRole('button', { name: /^Drain/ }).first().click();
    await page.getByRole('button', { name: 'Drain it' }).click();
    await page.getByText('draining', { exact: true }).first().waitFor();
  },
  palette: page => page.keyboard.press('Control+k'),
  keys: page => page.keyboard.press('?'),
  async jobs(page) {
    for (const n of [1, 2, 3]) await page.getByRole('checkbox').nth(n).check();
  },
};

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--force-color-profile=srgb', '--font-render-hinting=none'] });
for (const [name, path] of Object.entries(PAGES)) {
  if (only && !only.split(',').includes(name)) continue;
  const mock = await serve({ token: name === 'login' ? 'wl_x' : null, ...(name === 'empty' && { store: empty() }) });
  if (name === 'failed') mock.fail('jobs', 503);
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const theme of ['light', 'dark']) {
      const page = await browser.newPage({ viewport, deviceScaleFactor: size === 'phone' ? 2 : 1, colorScheme: theme, isMobile: size === 'phone', hasTouch: size === 'phone', reducedMotion: 'reduce' });
      await page.goto(mock.url + path);
      await page.waitForSelector('.panel, .state:not([aria-busy])');
      await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'));
      if (name === 'overview' || name === 'queue') for (let i = 0; i < 3; i++) await jitter(page, mock);
      await STEPS[name]?.(page);
      await page.screenshot({ path: `${folder}/${name}-${size}-${theme}.png`, fullPage });
      await page.close();
    }
  }
  await mock.close();
}
await browser.close();

/** A few frames, so that the backlog has a line. */
async function jitter(page, mock) {
  for (const queue of mock.store.queues) queue.available = Math.round(queue.available * 1.04);
  mock.push();
  await page.waitForTimeout(1_100);
}
