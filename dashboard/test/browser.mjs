// The browser that the tests drive: Debian's Chromium, without a download. Whatever a page complains of fails the test.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { serve } from './mock.mjs';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const axe = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

export const SIZES = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
/** Long enough for a server that leaves its store alone for up to a minute after slow looks, on a machine that has much to do. */
const TIMEOUT_MS = 90_000;

let browser;

/** Starts the browser before the tests of a file, and ends it after them. */
export function useBrowser() {
  before(async () => {
    if (!existsSync(executablePath)) throw new Error(`there is no ${executablePath}; install chromium, or say where it is with CHROMIUM`);
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--force-color-profile=srgb', '--font-render-hinting=none', '--disable-gpu', '--disable-dev-shm-usage'] });
  });
  after(() => browser?.close());
}

/** What is no complaint: that a request was answered with an error is said by the page itself. */
const EXPECTED = /Failed to load resource|net::ERR_/;

/**
 * A page over a mock server of its own, at `path`. Both end with the test, which fails when the page complained, asked another
 * host, or is wider than its screen.
 */
export async function open(t, { path = '', size = 'desktop', theme = 'light', mock: given, ...options } = {}) {
  const mock = given ?? (await serve(options));
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme, isMobile: size === 'phone', hasTouch: size === 'phone', reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'Europe/Berlin' });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const complaints = watch(page, mock);
  t.after(async () => {
    await context.close();
    if (!given) await mock.close();
    assert.deepEqual(complaints, [], 'the page complained');
  });
  await page.goto(mock.url + path);
  await page.waitForSelector('#main');
  return { page, mock, complaints };
}

function watch(page, mock) {
  const complaints = [];
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type()) && !EXPECTED.test(message.text())) complaints.push(message.text());
  });
  page.on('pageerror', error => complaints.push(String(error)));
  page.on('dialog', dialog => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', request => {
    if (!request.url().startsWith(new URL(mock.url).origin)) complaints.push(`another host: ${request.url()}`);
  });
  return complaints;
}

/** Waits until what is read from the page, or the mock, is as it should be. */
export async function until(read, is, what = 'the page') {
  const end = Date.now() + TIMEOUT_MS;
  for (;;) {
    const value = await read();
    if (is(value)) return value;
    if (Date.now() > end) assert.fail(`${what} did not come to be as expected; it is ${JSON.stringify(value)}`);
    await new Promise(resolve => setTimeout(resolve, 25));
  }
}

/** Presses `g` and then this letter, both at once: the page gives little time between them. */
export const goByKeys = (page, letter) => page.evaluate(keys => {
  for (const key of keys) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}, ['g', letter]);

/** Asks the palette, and takes its first hit, which has to be `hit`. */
export async function ask(page, text, hit) {
  await page.keyboard.press('Control+k');
  await page.locator('#palette input:focus').waitFor();
  await page.keyboard.type(text);
  await page.locator('[role="option"][aria-selected="true"]', { hasText: hit }).waitFor();
  await page.keyboard.press('Enter');
}

/** What reads as loading is over. */
export const settled = page => page.waitForFunction(() => !document.querySelector('[aria-busy="true"]'));

/** The findings of axe by WCAG 2.2 AA, as text. */
export async function findings(page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
  return result.violations.flatMap(({ id, impact, nodes }) => nodes.map(node => `${id} (${impact}) ${node.target.join(' ')}: ${node.any[0]?.message ?? ''}`));
}

/** By how many pixels the page is wider than the screen, and what sticks out. */
export const overflow = page => page.evaluate(() => {
  const over = document.documentElement.scrollWidth - innerWidth;
  const inside = '.tabs, .json, .log, .trace, .life-box, .scroll, .vh';
  const wide = over > 0 ? [...document.querySelectorAll('body *')].filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(inside)) : [];
  return over > 0 ? `${over} px: ${wide.slice(0, 5).map(each => `${each.tagName}.${each.getAttribute('class')}`).join(' ')}` : null;
});
