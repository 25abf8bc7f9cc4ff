// Who may do what on the real server: roles, logging in and out, the key of a start, a server that only shows.

import assert from 'node:assert/strict';
import { ask, findings, open, settled, until, useBrowser } from './browser.mjs';
import { overStores, serveReal, visit } from './server.mjs';
import { stock } from './stock.mjs';

useBrowser();

const WRITES = /^(Retry|Cancel|Delete|Edit|Pause queue|Resume queue|Pause [a-z.-]+$|Resume [a-z.-]+$|Run now|Remove|Reveal|Drain |Limit |Add )/;
const paths = ({ retryable, running, available }) => ['', 'queues', 'queues/media', 'jobs', 'jobs?state=retryable', `jobs/${retryable}`, `jobs/${running}`, `jobs/${available}`, 'workers', 'schedules?name=nightly.report', 'audit'];

/** The names of what can be pressed on these pages to change something. */
async function offered(page, server, all) {
  const found = new Set();
  for (const path of all) {
    await page.goto(server.url + path);
    await page.waitForFunction(() => document.querySelector('main .panel, main .state:not([aria-busy])'));
    await settled(page);
    for (const name of await page.getByRole('button').evaluateAll(buttons => buttons.map(each => each.getAttribute('aria-label') ?? each.textContent))) if (WRITES.test(name)) found.add(name);
    if (await page.getByRole('checkbox').count()) found.add('a checkbox');
  }
  return [...found].sort();
}

/** What the page itself may not do although it asks: the answer of the server to a write with its cookie. */
const refused = (page, path) => page.evaluate(async at => {
  const answer = await fetch(`api/v1/${at}`, { method: 'POST' });
  return [answer.status, (await answer.json()).code];
}, path);

overStores((real, test) => {
  test('a viewer is offered no change, and allowed none', async t => {
    const { server, stock: jobs } = real;
    const { page } = await visit(t, server, { role: 'viewer' });
    await page.getByText('Needs a look').waitFor();
    assert.deepEqual(await offered(page, server, paths(jobs)), []);
    await page.getByText('The audit log is for admins').waitFor();
    for (const path of [`jobs/${jobs.retryable}/retry`, `jobs/${jobs.available}/cancel`, 'queues/mail/pause', 'schedules/nightly.report/run']) assert.deepEqual(await refused(page, path), [403, 'permission_denied'], path);
    assert.equal((await server.ask('GET', `api/v1/jobs/${jobs.available}/args?reveal=1`, undefined, 'viewer')).status, 403);
    assert.equal((await server.job(jobs.retryable)).state, 'retryable');
    assert.ok(!(await page.content()).includes('hunter2'));
  });

  test('an operator changes jobs, and an admin the rest', async t => {
    const { server, stock: jobs } = real;
    const operator = (await visit(t, server, { role: 'operator' })).page;
    await operator.getByText('Needs a look').waitFor();
    const few = await offered(operator, server, paths(jobs));
    for (const name of ['Retry now', 'Edit…', 'Cancel…', 'Pause queue media', 'Resume queue imports', 'Run now: nightly.report', 'a checkbox']) assert.ok(few.includes(name), `${name} in ${few}`);
    for (const name of ['Reveal…', 'Remove…', 'Limit each key…', 'Add a key…']) assert.ok(!few.includes(name), name);
    assert.deepEqual(await refused(operator, 'queues/none/pause'), [404, 'not_found']);
    const admin = (await visit(t, server)).page;
    await admin.getByText('Needs a look').waitFor();
    const many = await offered(admin, server, paths(jobs));
    for (const name of [...few, 'Reveal…', 'Remove…', 'Limit each key…', 'Add a key…']) assert.ok(many.includes(name), `${name} in ${many}`);
  });

  test('who is not known logs in with a token, and out', async t => {
    const { server } = real;
    const { page } = await visit(t, server, { path: 'workers', role: null });
    await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
    assert.deepEqual(await findings(page), []);
    await page.getByLabel('Token').fill('wl_wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Token').fill(server.tokens.operator);
    await page.keyboard.press('Enter');
    await page.getByText('php-7').first().waitFor();
    assert.ok(page.url().endsWith('/workers'));
    await page.getByText('the-operator').waitFor();
    await page.reload();
    await page.getByText('php-7').first().waitFor();
    assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads the session');
    await ask(page, 'log out', 'Log out');
    await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
    assert.equal(await page.evaluate(async () => (await fetch('api/v1/overview')).status), 401);
  });

  test('the token of a worker opens no page, and is told apart from a wrong one', async t => {
    const { server } = real;
    const { page } = await visit(t, server, { role: 'worker' });
    await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
    await page.getByText('of the role worker, which sees no page').waitFor();
    assert.equal((await server.ask('GET', 'api/v1/overview', undefined, 'worker')).status, 403);
  });

  test('this machine looks, and the key of the start changes things', async t => {
    const server = await serveReal(real.kind, []);
    t.after(() => server.close());
    const { id } = await server.cli('enqueue', 'a', '--queue', 'mine');
    const { page } = await open(t, { mock: server, path: `jobs/${id}` });
    await page.locator('h1 .badge.available').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Cancel…' }).count(), 0);
    await page.goto(server.login);
    await page.getByText('Needs a look').waitFor();
    assert.equal(page.url(), server.url, 'the key does not stay in the address');
    await page.goto(`${server.url}jobs/${id}`);
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('button', { name: 'Cancel it' }).click();
    await page.locator('h1 .badge.cancelled').waitFor();
    const other = (await open(t, { mock: server, path: `#key=${server.login.split('#key=')[1]}` })).page;
    await other.getByText('The key in that address does not open this server').waitFor();
  });

  test('a server that only shows offers and allows no change, below a path of its own', async t => {
    const server = await serveReal(real.kind, ['--read-only', '--base-path', '/ops/jobs']);
    t.after(() => server.close());
    const { id } = await server.cli('enqueue', 'a', '--queue', 'mine');
    const { page } = await open(t, { mock: { url: server.login } });
    await page.getByText('Needs a look').waitFor();
    assert.ok(server.url.endsWith('/ops/jobs/'));
    assert.deepEqual(await offered(page, server, ['', 'queues/mine', 'jobs', `jobs/${id}`]), []);
    assert.deepEqual(await refused(page, `jobs/${id}/cancel`), [403, 'read_only']);
    await page.getByRole('link', { name: 'Queues' }).first().click();
    await page.waitForURL(`${server.url}queues`);
    await until(() => page.locator('main').innerText(), text => text.includes('mine'));
  });
}, stock);
