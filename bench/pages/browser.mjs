// A browser that takes down what pages ask for, and when they paint.

import { createRequire } from 'node:module';

const { chromium } = createRequire(new URL('../../dashboard/package.json', import.meta.url))('playwright-core');
/** Long enough for a page's own repetitions not to begin. */
const LOADED_MS = 1_500;

export class Browser {
  async start() {
    this.chromium = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
  }

  async page() {
    const context = await this.chromium.newContext({ viewport: { width: 1440, height: 900 } });
    return context.newPage();
  }

  /** What is asked for while a page loads, but its event stream: addresses under the server's. */
  async requests(url) {
    return [...new Set((await this.taken(url, LOADED_MS)).map(each => each.url).filter(each => !each.includes('/live?')))];
  }

  /** What a page asks for in this time: addresses with the milliseconds after its start. */
  async watch(url, during) {
    return this.taken(url, during);
  }

  async taken(url, during) {
    const page = await this.page();
    const begun = Date.now(), found = [];
    page.on('request', request => found.push({ url: request.url(), after: Date.now() - begun }));
    await page.goto(url);
    await page.waitForTimeout(during);
    await page.context().close();
    return found;
  }

  /** Milliseconds until something was seen, for each of some loads with an empty cache. */
  async paints(url, loads) {
    const found = [];
    for (let i = 0; i < loads; i++) {
      const page = await this.page();
      await page.goto(url);
      await page.waitForSelector('#main');
      found.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
      await page.context().close();
    }
    return found;
  }

  async stop() {
    await this.chromium?.close();
    this.chromium = undefined;
  }
}
