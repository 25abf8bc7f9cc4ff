// What changes by itself over the real server: nothing is reloaded, and figures follow what programs do.

import assert from 'node:assert/strict';
import { until, useBrowser } from './browser.mjs';
import { overStores, serveReal, visit } from './server.mjs';

useBrowser();

const main = page => page.locator('main').innerText();
const rowOf = (page, name) => page.locator('table[data-list] tbody tr').filter({ has: page.getByRole('link', { name, exact: true }) });

/** Every call that the page makes from now on. */
function calls(page) {
  const made = [];
  page.on('request', request => made.push(new URL(request.url()).pathname));
  return made;
}

overStores((real, test) => {
  test('an empty store fills while one looks', async t => {
    const server = await serveReal(real.kind);
    t.after(() => server.close());
    const { page } = await visit(t, server);
    await page.getByText('No queue yet').waitFor();
    await until(() => page.locator('.live').textContent(), text => text === 'Live');
    const made = calls(page);
    await server.enqueue({ kind: 'a', queue: 'first' });
    await rowOf(page, 'first').waitFor();
    await page.getByText('No worker takes jobs of first').waitFor();
    assert.deepEqual(made.filter(path => path.endsWith('/overview')), [], 'it came by the stream');
  });

  test('figures of the overview and the queue follow what is enqueued and worked', async t => {
    const { server } = real;
    await server.enqueue({ kind: 'a', queue: 'fed' });
    const overview = (await visit(t, server)).page;
    const queue = (await visit(t, server, { path: 'queues/fed' })).page;
    const available = page => rowOf(page, 'fed').locator('.q-avail').innerText();
    await until(() => available(overview), text => /^1\b/.test(text));
    await queue.getByText('No worker takes these jobs').waitFor();
    await server.enqueue({ kind: 'a', queue: 'fed' }, { kind: 'a', queue: 'fed' });
    await until(() => available(overview), text => /^3\b/.test(text));
    await until(() => main(queue), text => /Available\s*3/i.test(text));
    const stop = server.worker('--queue', 'fed', '--exec', 'true');
    await until(() => available(overview), text => /^0\b/.test(text));
    await until(() => main(queue), text => /1 live worker/.test(text) && /3 completed and kept/.test(text));
    await stop();
    await until(() => main(queue), text => /0 live workers/.test(text));
  });

  test('a list of jobs and the page of one follow', async t => {
    const { server } = real;
    const list = (await visit(t, server, { path: 'jobs?queue=listed' })).page;
    await list.getByText('No job matches').waitFor();
    const [id] = await server.enqueue({ kind: 'a', queue: 'listed', delay_ms: 3_600_000 });
    await list.locator('tr', { hasText: id }).getByRole('link').click();
    await list.locator('h1 .badge.scheduled').waitFor();
    await server.api('PATCH', `jobs/${id}`, { now: true });
    await list.locator('h1 .badge.available').waitFor();
    await server.cli('work', '--queue', 'listed', '--until-empty', '--exec', 'true');
    await list.locator('h1 .badge.completed').waitFor();
  });

  test('the tab of each state counts what is there', async t => {
    const { server } = real;
    const { page } = await visit(t, server, { path: 'jobs' });
    const tab = () => page.getByRole('navigation', { name: 'State' }).getByRole('link', { name: /^scheduled/ }).innerText();
    const before = Number((await until(tab, text => /\d/.test(text))).match(/\d+/)[0]);
    await server.enqueue({ kind: 'a', queue: 'tabs', delay_ms: 3_600_000 });
    await until(tab, text => text.includes(String(before + 1)));
  });

  test('paused means that nothing is asked for, then all is made up for', async t => {
    const { server } = real;
    await server.enqueue({ kind: 'a', queue: 'paused-updates' });
    const { page } = await visit(t, server);
    const available = () => rowOf(page, 'paused-updates').locator('.q-avail').innerText();
    await until(available, text => /^1\b/.test(text));
    await page.keyboard.press('.');
    await until(() => page.locator('.live').textContent(), text => text === 'Paused');
    await server.enqueue({ kind: 'a', queue: 'paused-updates' });
    assert.match(await available(), /^1\b/);
    await page.keyboard.press('.');
    await until(available, text => /^2\b/.test(text));
  });

  test('a server that is gone is said, and the page comes back with it', async t => {
    const server = await serveReal(real.kind);
    t.after(() => server.close());
    await server.enqueue({ kind: 'a', queue: 'kept' });
    const { page } = await visit(t, server);
    await rowOf(page, 'kept').waitFor();
    const again = await server.halt();
    await page.getByText('The server does not answer').first().waitFor();
    assert.ok(await rowOf(page, 'kept').isVisible());
    await again();
    // Sessions end with the process.
    await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
    await page.getByLabel('Token').fill(server.tokens.viewer);
    await page.keyboard.press('Enter');
    await rowOf(page, 'kept').waitFor();
    await page.locator('.stale').waitFor({ state: 'detached' });
  });
});
