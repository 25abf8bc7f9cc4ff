// Queues and schedules by the real server: paused, limited, run, removed; and in the store afterwards.

import assert from 'node:assert/strict';
import { findings, until, useBrowser } from './browser.mjs';
import { overStores, visit } from './server.mjs';

useBrowser();

const queueOf = async (server, name) => (await server.cli('status')).queues.find(queue => queue.name === name);

overStores((real, test) => {
  test('a queue is paused and resumed, on its page and in the list', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'stopped' });
    const { page } = await visit(t, server, { path: 'queues/stopped', role: 'operator' });
    await page.getByRole('button', { name: 'Pause queue stopped' }).click();
    await page.getByText('Queue stopped is paused; what runs is finished').waitFor();
    await page.getByRole('button', { name: 'Resume queue stopped' }).waitFor();
    assert.equal((await queueOf(server, 'stopped')).paused, true);
    await server.cli('work', '--queue', 'stopped', '--until-empty', '--exec', 'true');
    assert.equal((await server.job(id)).state, 'available', 'no worker is given a job of it');
    await page.goto(`${server.url}queues`);
    await page.getByRole('button', { name: 'Resume queue stopped' }).click();
    await page.getByRole('button', { name: 'Pause queue stopped' }).waitFor();
    assert.equal((await queueOf(server, 'stopped')).paused, false);
    await server.cli('work', '--queue', 'stopped', '--until-empty', '--exec', 'true');
    assert.equal((await server.job(id)).state, 'completed');
    await server.cli('queues', 'pause', 'stopped');
    await page.getByRole('button', { name: 'Resume queue stopped' }).waitFor();
  });

  test('limits of a queue are set, shown and taken away', async t => {
    const { server } = real;
    await server.enqueue({ kind: 'a', queue: 'limited' });
    const { page } = await visit(t, server, { path: 'queues/limited' });
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Edit…' }).click();
    assert.deepEqual(await findings(page), []);
    await dialog.getByLabel('Jobs at once').fill('7');
    await dialog.getByLabel('Starts').fill('90');
    await dialog.locator('select').selectOption('minute');
    await dialog.getByLabel('in a burst, at most').fill('10');
    await dialog.getByRole('button', { name: 'Change' }).click();
    for (const text of ['90 per minute', '0 / 7', 'In a burst']) await until(() => page.locator('main').innerText(), shown => shown.includes(text), text);
    assert.deepEqual((await queueOf(server, 'limited')).limits, { concurrency: 7, rate: { count: 90, period_ms: 60_000, burst: 10 } });
    await page.getByRole('button', { name: 'Edit…' }).click();
    assert.equal(await dialog.getByLabel('in a burst, at most').inputValue(), '10');
    await dialog.getByLabel('Jobs at once').fill('');
    await dialog.getByLabel('Starts').fill('');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await until(() => page.locator('dl.facts').innerText(), text => text.match(/no limit/g)?.length === 2);
    assert.deepEqual((await queueOf(server, 'limited')).limits, {});
  });

  test('limits of keys that a program set are shown', async t => {
    const { server } = real;
    await server.enqueue({ kind: 'a', queue: 'keyed', key: 'north' });
    await server.cli('queues', 'limit-keys', 'keyed', '--concurrency', '2', '--rate', '100/1m');
    const { page } = await visit(t, server, { path: 'queues/keyed' });
    await page.getByText('Each key').waitFor();
    await page.getByText('2 at once, 100 per minute').waitFor();
  });

  test('limits of keys are set, shown and taken away', async t => {
    const { server } = real;
    await server.enqueue({ kind: 'a', queue: 'tenants', key: 'north' });
    const limits = async () => (await server.cli('queues', 'keys', 'tenants')).key_limits;
    const { page } = await visit(t, server, { path: 'queues/tenants' });
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Limit each key…' }).click();
    assert.deepEqual(await findings(page), []);
    await dialog.getByLabel('Jobs at once').fill('2');
    await dialog.getByLabel('Starts').fill('90');
    await dialog.locator('select').selectOption('minute');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await page.getByText('2 at once, 90 per minute').waitFor();
    assert.deepEqual(await limits(), { default: { concurrency: 2, rate: { count: 90, period_ms: 60_000 }, weight: 1 } });

    await page.getByRole('button', { name: 'Add a key…' }).click();
    await dialog.getByLabel('Key', { exact: true }).fill('north/ä 1 %');
    await dialog.getByLabel('One after the other').check();
    await dialog.getByLabel('Share beside other keys').fill('5');
    await dialog.getByRole('button', { name: 'Add' }).click();
    await page.getByText('one after the other, weight 5').waitFor();
    assert.deepEqual((await limits()).named, { 'north/ä 1 %': { serial: true, weight: 5 } });
    await page.getByRole('button', { name: 'Edit the limits of key north/ä 1 %' }).click();
    assert.equal(await dialog.getByLabel('Share beside other keys').inputValue(), '5');
    await dialog.getByLabel('One after the other').uncheck();
    await dialog.getByLabel('Jobs at once').fill('7');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await page.getByText('7 at once, weight 5').waitFor();
    assert.deepEqual((await limits()).named, { 'north/ä 1 %': { concurrency: 7, weight: 5 } });

    await page.getByRole('button', { name: 'Remove the limits of key north/ä 1 %' }).click();
    await dialog.getByRole('button', { name: 'Remove them' }).click();
    await until(limits, ({ named }) => named === undefined, 'the named keys');
    await page.getByText('7 at once, weight 5').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Remove all limits of keys' }).click();
    await dialog.getByRole('button', { name: 'Remove them' }).click();
    await page.getByText('Its jobs run in the order of their arrival, whatever their keys').waitFor();
    assert.equal(await limits(), null);
    const { items } = await server.api('GET', 'audit?limit=5');
    const key = encodeURIComponent('north/ä 1 %');
    assert.deepEqual(items.map(({ action, target }) => [action, target]), [
      ['queues.unlimit_keys', '/queues/tenants/key-limits'], ['queues.unlimit_key', `/queues/tenants/key-limits/${key}`],
      ['queues.limit_key', `/queues/tenants/key-limits/${key}`], ['queues.limit_key', `/queues/tenants/key-limits/${key}`], ['queues.limit_keys', '/queues/tenants/key-limits'],
    ]);
  });

  test('a schedule is run now, paused, resumed and removed', async t => {
    const { server } = real;
    await server.api('PUT', 'schedules/fx.rates', { cron: '0 3 * * *', job: { kind: 'fx.fetch', queue: 'rates', args: {} } });
    const { page } = await visit(t, server, { path: 'schedules?name=fx.rates' });
    const shown = () => server.api('GET', 'schedules/fx.rates');
    await page.getByRole('button', { name: 'Run now: fx.rates' }).last().click();
    await page.getByText('its job is enqueued').waitFor();
    const [job] = (await server.api('GET', 'jobs?queue=rates')).items;
    assert.deepEqual([job.kind, job.state], ['fx.fetch', 'available']);
    await page.getByRole('button', { name: 'Pause fx.rates' }).last().click();
    await page.getByRole('button', { name: 'Resume fx.rates' }).first().waitFor();
    await page.getByText('passed over while it is paused').waitFor();
    assert.equal((await shown()).paused, true);
    await page.getByRole('button', { name: 'Resume fx.rates' }).last().click();
    await page.getByRole('button', { name: 'Pause fx.rates' }).first().waitFor();
    assert.equal((await shown()).paused, false);
    await page.getByRole('button', { name: 'Remove…' }).click();
    await page.getByRole('button', { name: 'Back' }).click();
    await page.getByRole('button', { name: 'Remove…' }).click();
    await page.getByRole('button', { name: 'Remove it' }).click();
    await page.getByText('No schedule yet').waitFor();
    assert.equal((await server.ask('GET', 'api/v1/schedules/fx.rates')).status, 404);
    assert.equal((await server.job(job.id)).state, 'available', 'its job stays');
  });

  test('the job that a tick made is shown, and leads there', async t => {
    const { server } = real;
    await server.api('PUT', 'schedules/every.second', { cron: '* * * * * *', job: { kind: 'tick', queue: 'ticks', args: {} } });
    server.worker('--queue', 'ticks', '--exec', 'true');
    const { page } = await visit(t, server, { path: 'schedules' });
    const row = page.locator('table[data-list] tbody tr', { hasText: 'every.second' });
    await row.locator('.badge').first().waitFor();
    await server.api('POST', 'schedules/every.second/pause');
    await row.locator('a', { has: page.locator('.badge') }).click();
    await page.getByRole('heading', { name: /tick/ }).waitFor();
    await server.api('DELETE', 'schedules/every.second');
  });
});
