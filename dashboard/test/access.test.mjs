// Who may do what, and who has to log in.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, findings, goByKeys, open, until, useBrowser } from './browser.mjs';

useBrowser();

const WRITES = /^(Retry|Cancel|Delete|Edit|Pause queue|Resume queue|Pause [a-z.-]+$|Resume [a-z.-]+$|Run now|Remove|Reveal|Drain |Limit |Add )/;
const PAGES = ['', 'queues', 'queues/webhooks', 'jobs?state=retryable', 'jobs?state=discarded', 'jobs/48190412', 'workers', 'schedules?name=fx.rates', 'audit'];

const names = page => page.getByRole('button').evaluateAll(all => all.map(each => each.getAttribute('aria-label') ?? each.textContent));

for (const [who, options] of [['a viewer', { role: 'viewer' }], ['an admin of a read-only server', { role: 'admin', readOnly: true }]]) {
  test(`${who} is offered no change`, async t => {
    const { page, mock } = await open(t, options);
    for (const path of PAGES) {
      await page.goto(mock.url + path);
      await page.waitForFunction(() => document.querySelector('main .panel, main .state:not([aria-busy])'));
      assert.deepEqual((await names(page)).filter(name => WRITES.test(name)), [], path);
      assert.equal(await page.getByRole('checkbox').count(), 0, path);
    }
    await page.keyboard.press('Control+k');
    await page.locator('#palette input:focus').waitFor();
    await page.keyboard.type('pause queue');
    await page.getByRole('option', { name: 'Jobs of kind pause queue' }).waitFor();
    assert.equal(await page.getByRole('option', { name: 'Pause queue mail' }).count(), 0);
    assert.deepEqual(mock.calls.filter(call => call.method !== 'GET'), []);
  });
}

test('the same words are offered to an admin', async t => {
  const { page, mock } = await open(t);
  const found = new Set();
  for (const path of PAGES) {
    await page.goto(mock.url + path);
    await page.waitForFunction(() => document.querySelector('main .panel'));
    await until(() => page.locator('[aria-busy="true"]').count(), n => n === 0);
    for (const name of await names(page)) if (WRITES.test(name)) found.add(name.replace(/^(Pause queue|Run now:?) .*/, '$1'));
  }
  for (const name of ['Pause queue', 'Cancel…', 'Edit…', 'Run now:', 'Remove…', 'Reveal…']) assert.ok(found.has(name), `${name} in ${[...found]}`);
});

test('an operator drains a worker, once asked twice', async t => {
  const { page, mock } = await open(t, { role: 'operator', path: 'workers' });
  const { id, name } = mock.store.workers.find(worker => worker.live && worker.queues.length);
  const drain = page.getByRole('button', { name: `Drain ${name}` });
  await drain.click();
  assert.equal(mock.store.workers.find(worker => worker.id === id).draining, false);
  await page.getByRole('button', { name: 'Drain it' }).click();
  await page.getByText('draining').waitFor();
  assert.equal(mock.store.workers.find(worker => worker.id === id).draining, true);
  assert.equal(await drain.count(), 0);
});

test('an operator pauses a queue and has no audit log', async t => {
  const { page, mock } = await open(t, { role: 'operator', path: 'queues/webhooks' });
  await page.getByRole('button', { name: 'Pause queue webhooks' }).click();
  await page.getByRole('button', { name: 'Resume queue webhooks' }).waitFor();
  assert.ok(mock.store.queues.find(queue => queue.name === 'webhooks').paused);
  assert.equal(await page.getByRole('link', { name: 'Audit log' }).count(), 0);
  await page.goto(`${mock.url}audit`);
  await page.getByText('The audit log is for admins').waitFor();
});

test('an admin changes limits', async t => {
  const { page, mock } = await open(t, { path: 'queues/billing' });
  await page.getByRole('button', { name: 'Edit…' }).click();
  await page.getByLabel('Jobs at once').fill('7');
  await page.getByLabel('Starts').fill('90');
  await page.locator('dialog select').selectOption('minute');
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByText('90 per minute').waitFor();
  const { body } = mock.calls.find(call => call.method === 'PUT');
  assert.deepEqual(body, { concurrency: 7, rate: { count: 90, period_ms: 60_000 } });
});

test('schedules are run and paused', async t => {
  const { page, mock } = await open(t, { path: 'schedules?name=fx.rates' });
  await page.getByRole('button', { name: 'Run now: fx.rates' }).last().click();
  await page.getByText('its job is enqueued').waitFor();
  await page.getByRole('button', { name: 'Pause fx.rates' }).last().click();
  await page.getByRole('button', { name: 'Resume fx.rates' }).first().waitFor();
  assert.ok(mock.store.schedules.find(schedule => schedule.name === 'fx.rates').paused);
  await page.getByText('passed over while it is paused').waitFor();
});

test('who is not known logs in, and out when the session ends', async t => {
  const { page, mock } = await open(t, { token: 'wl_right', path: 'workers' });
  await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
  assert.equal(await page.title(), 'Log in · Windlass');
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(mock.calls.map(call => call.path), ['session'], 'nothing else is asked for');
  await page.getByLabel('Token').fill('wl_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('this token is not known here').waitFor();
  await page.getByLabel('Token').fill('wl_right');
  await page.keyboard.press('Enter');
  await page.getByText('media-2').first().waitFor();
  assert.ok(page.url().endsWith('/workers'), 'it is the page that was asked for');

  await page.context().clearCookies();
  await goByKeys(page, 'j');
  await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
});

test('one logs out by the palette', async t => {
  const { page } = await open(t, { token: 'wl_right' });
  await page.getByLabel('Token').fill('wl_right');
  await page.keyboard.press('Enter');
  await page.getByText('Needs a look').waitFor();
  await ask(page, 'log out', 'Log out');
  await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
});

test('a viewer logs in with another token, or goes back', async t => {
  const { page } = await open(t, { role: 'viewer', path: 'workers' });
  await page.getByText('media-2').first().waitFor();
  for (const leave of ['Back', 'Log in']) {
    await ask(page, 'log in with', 'Log in with another token');
    await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
    if (leave === 'Log in') await page.getByLabel('Token').fill('wl_wrong');
    await page.getByRole('button', { name: leave, exact: true }).click();
    if (leave === 'Back') await page.getByText('media-2').first().waitFor();
    else await page.getByText('this token is not known here').waitFor();
  }
});

test('the key of the address logs in, once, and does not stay there', async t => {
  const { page, mock } = await open(t, { token: 'wl_right', path: 'workers#key=wl_right' });
  await page.getByText('media-2').first().waitFor();
  assert.equal(page.url(), `${mock.url}workers`);
  await page.context().clearCookies();
  await page.goto(`${mock.url}#key=wl_used`);
  await page.getByText('The key in that address does not open this server: this token is not known here').waitFor();
  await page.getByRole('heading', { name: 'Log in to Windlass' }).waitFor();
});

test('under a sub-path everything is below it', async t => {
  const { page, mock } = await open(t, { base: '/ops/jobs/', path: 'queues/webhooks' });
  await page.getByRole('link', { name: 'Jobs' }).first().click();
  await page.waitForURL(`${mock.url}jobs`);
  await page.locator('table[data-list] a').first().click();
  await page.waitForURL(`${mock.url}jobs/*`);
  await page.reload();
  await page.getByText('Details').waitFor();
});
