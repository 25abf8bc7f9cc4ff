// The list of jobs: filters in the address, pages, selection, and changes of many.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings, open, until, useBrowser } from './browser.mjs';

useBrowser();

const rows = page => page.locator('table[data-list] tbody tr');
const asked = (mock, method, path) => mock.calls.filter(call => call.method === method && call.path === path);

test('what is typed becomes the filter and the address', async t => {
  const { page, mock } = await open(t, { path: 'jobs' });
  await page.getByRole('link', { name: /^retryable/ }).click();
  await page.fill('.query input', 'queue:webhooks webhook.replay');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/jobs?state=retryable&queue=webhooks&kind=webhook.replay');
  await until(() => rows(page).count(), n => n === 20);
  assert.deepEqual(asked(mock, 'GET', 'jobs').at(-1).query, { state: 'retryable', queue: 'webhooks', kind: 'webhook.replay', limit: '50' });

  await page.getByRole('button', { name: 'Remove kind webhook.replay' }).click();
  await page.waitForURL('**/jobs?state=retryable&queue=webhooks');
  await page.goBack();
  await page.waitForURL('**kind=webhook.replay');
  await page.locator('.token', { hasText: 'kind' }).waitFor();
});

test('jobs are found by their error and their args', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  await page.fill('.query input', 'error:"does not exist" args:{"nobody": {"a b": 1}}');
  await page.keyboard.press('Enter');
  await page.locator('.token', { hasText: 'args' }).waitFor();
  await page.getByText('No job matches').waitFor();
  assert.deepEqual(asked(mock, 'GET', 'jobs').at(-1).query, { state: 'discarded', error: 'does not exist', args: '{"nobody": {"a b": 1}}', limit: '50' });
  if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT });
  await page.fill('.query input', 'args:[1]');
  await page.keyboard.press('Enter');
  assert.match(await page.getByRole('alert').first().textContent(), /no JSON object with members/);
});

test('what is no filter is said, and a number is a job', async t => {
  const { page } = await open(t, { path: 'jobs' });
  await page.fill('.query input', 'colour:red');
  await page.keyboard.press('Enter');
  assert.match(await page.getByRole('alert').first().textContent(), /jobs are not filtered by colour/);
  await page.fill('.query input', '48190412');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/jobs/48190412');
  await page.getByRole('heading', { name: /video.encode/ }).waitFor();
});

test('a state that does not exist is said', async t => {
  const { page } = await open(t, { path: 'jobs?state=lost' });
  await page.getByText('is no state, so jobs of all states are listed').waitFor();
});

test('pages lead on and back', async t => {
  const { page } = await open(t, { path: 'jobs?state=retryable' });
  const id = () => rows(page).first().locator('.mono').textContent();
  const first = await id();
  await page.getByRole('link', { name: /Older/ }).click();
  await page.waitForURL('**after=50');
  await until(id, other => other !== first);
  await page.keyboard.press(']');
  await page.waitForURL('**after=100');
  await page.getByRole('link', { name: /Back/ }).click();
  await page.waitForURL('**after=50');
  await page.getByRole('link', { name: /First page/ }).waitFor();
  await page.keyboard.press('[');
  await page.waitForURL('**/jobs?state=retryable');
  await until(id, other => other === first);
});

test('an empty page with more behind it says so', async t => {
  const { page } = await open(t, { path: 'jobs?kind=rare.kind' });
  await page.getByText('None among the jobs that were looked at').waitFor();
  await page.getByRole('link', { name: 'Look further' }).first().click();
  await page.waitForURL('**after=behind-the-bound');
  await page.getByText('video.encode').first().waitFor();
});

test('nothing that matches is another answer than nothing read', async t => {
  const { page, mock } = await open(t, { path: 'jobs?kind=no.such' });
  await page.getByText('No job matches').waitFor();
  mock.fail('jobs', 503);
  await page.reload();
  await page.getByText('The jobs cannot be listed').waitFor();
  assert.match(await page.getByRole('alert').textContent(), /Service unavailable.*The store does not answer.*request r-/s);
  mock.heal();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('No job matches').waitFor();
});

test('a few selected jobs are retried after a preview', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=retryable' });
  await rows(page).nth(0).getByRole('checkbox').check();
  await rows(page).nth(2).getByRole('checkbox').check();
  assert.match(await page.getByRole('region', { name: 'Selected jobs' }).textContent(), /2 selected/);
  await page.getByRole('button', { name: /Retry…/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('heading', { name: 'Retry 2 jobs?' }).waitFor();
  assert.deepEqual(await findings(page), []);
  assert.equal(asked(mock, 'POST', 'bulk')[0].body.ids.length, 2);
  assert.equal(mock.calls.filter(call => call.path.endsWith('/confirm')).length, 0, 'a preview changes nothing');
  await dialog.getByRole('button', { name: 'Retry 2' }).click();
  await page.getByText('Retried 2 jobs').waitFor();
  assert.equal(await page.locator('.bulk').count(), 0, 'nothing is selected any more');
});

test('many jobs ask for their number, and their progress is shown on every page', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=retryable&queue=webhooks' });
  mock.still = true;
  await rows(page).nth(0).getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Select all that match' }).click();
  await page.getByRole('button', { name: /Cancel…/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Type 320 to confirm').waitFor();
  const button = dialog.getByRole('button', { name: 'Cancel 320' });
  assert.ok(await button.isDisabled());
  assert.ok(await dialog.getByRole('textbox').evaluate(field => field === document.activeElement));
  await dialog.getByRole('textbox').fill('32');
  assert.ok(await button.isDisabled());
  await dialog.getByRole('textbox').fill('320');
  await button.click();
  assert.deepEqual(asked(mock, 'POST', 'bulk').at(-1).body, { action: 'cancel', filter: { state: 'retryable', queue: 'webhooks' } });
  const bar = page.getByRole('progressbar', { name: /of 320 jobs/ });
  await bar.waitFor();
  await page.getByRole('link', { name: 'Workers' }).first().click();
  await page.waitForURL('**/workers');
  await bar.waitFor();
  mock.still = false;
  await page.getByText('Cancelled 320 jobs').waitFor();
  assert.deepEqual(asked(mock, 'POST', 'bulk/b_1/confirm')[0].body, { count: 320 });
  await page.getByRole('button', { name: 'Close' }).first().click();
  await page.getByRole('region', { name: 'Bulk changes' }).waitFor({ state: 'detached' });
});

test('a count that takes long is told as it goes on, and ends with its question', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=retryable&queue=webhooks' });
  mock.counting = 150;
  const count = async () => {
    await rows(page).nth(0).getByRole('checkbox').check();
    await page.getByRole('button', { name: 'Select all that match' }).click();
    await page.getByRole('button', { name: /Cancel…/ }).click();
    await page.getByRole('dialog').getByText('150 so far').waitFor();
  };
  await count();
  await page.getByRole('dialog').getByRole('button', { name: 'Back' }).click();
  await until(() => asked(mock, 'DELETE', 'bulk/b_1').length, n => n === 1);
  await page.getByRole('button', { name: 'Select none' }).click();
  await count();
  Object.assign(mock.store.bulks.get('b_2'), { state: 'previewed', count: 320, exact: true });
  await page.getByRole('dialog').getByText('Type 320 to confirm').waitFor();
  assert.equal(asked(mock, 'DELETE', 'bulk/b_2').length, 0);
  await page.getByRole('dialog').getByRole('button', { name: 'Back' }).click();
  await page.getByRole('button', { name: 'Select none' }).click();
  // As where nobody asked for it while this page was not seen.
  await count();
  Object.assign(mock.store.bulks.get('b_3'), { state: 'stopped' });
  await page.getByRole('dialog').getByText('The count was stopped.').waitFor();
});

test('a run can be stopped, and is still there after a reload', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  mock.still = true;
  await page.getByRole('checkbox', { name: 'Select every job of this page' }).check();
  await page.getByRole('button', { name: /Delete…/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: /Delete 50/ }).click();
  await page.getByText('Deleting 50 jobs: 0 done').waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped after 0 jobs of 50').waitFor();
  assert.equal(asked(mock, 'DELETE', 'bulk/b_1').length, 1);
});

test('what is to be changed of many is asked for first, then how many they are', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=retryable' });
  await rows(page).nth(0).getByRole('checkbox').check();
  await rows(page).nth(2).getByRole('checkbox').check();
  await page.getByRole('button', { name: /^Edit…/ }).click();
  const dialog = page.getByRole('dialog');
  const next = dialog.getByRole('button', { name: 'Preview…' });
  assert.ok(await next.isDisabled(), 'nothing is to be changed yet');
  assert.deepEqual(await findings(page), []);
  await dialog.getByLabel('Priority, lower runs first').fill('-500');
  assert.equal(asked(mock, 'POST', 'bulk').length, 0);
  await dialog.getByLabel('Priority, lower runs first').fill('-5');
  await dialog.getByLabel('Attempts in all').fill('3');
  await next.click();
  await dialog.getByRole('heading', { name: 'Edit 2 jobs?' }).waitFor();
  await dialog.getByText('priority: -5').waitFor();
  await dialog.getByText('max_attempts: 3').waitFor();
  assert.deepEqual(await findings(page), []);
  const { action, edit, ids } = asked(mock, 'POST', 'bulk')[0].body;
  assert.deepEqual({ action, edit, ids: ids.length }, { action: 'edit', edit: { priority: -5, max_attempts: 3 }, ids: 2 });
  await dialog.getByRole('button', { name: 'Edit 2' }).click();
  await page.getByText('Edited 2 jobs').waitFor();
  assert.deepEqual(ids.map(id => mock.store.jobs.get(id).priority), [-5, -5]);
});

test('dead jobs have no time to be set', async t => {
  const { page } = await open(t, { path: 'jobs?state=discarded' });
  await rows(page).nth(0).getByRole('checkbox').check();
  await page.getByRole('button', { name: /^Edit…/ }).click();
  await page.getByLabel('Priority, lower runs first').waitFor();
  assert.equal(await page.getByLabel(/Available from/).count(), 0);
});

test('a count that changed meanwhile is refused, and nothing is changed', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  await rows(page).nth(0).getByRole('checkbox').check();
  await page.getByRole('button', { name: /Retry…/ }).click();
  await page.getByRole('button', { name: 'Retry 1' }).waitFor();
  mock.store.bulks.get('b_1').count = 7;
  await page.getByRole('button', { name: 'Retry 1' }).click();
  await page.getByText(/Nothing was changed: Another count/).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await until(() => mock.store.bulks.size, n => n === 2);
  await page.getByRole('button', { name: 'Retry 1' }).click();
  await page.getByText('Retried 1 job').waitFor();
});

test('the pace is part of the preview', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  await page.getByRole('checkbox', { name: 'Select every job of this page' }).check();
  await page.getByRole('button', { name: /Retry…/ }).click();
  await page.getByLabel('Pace').selectOption('10 a second');
  await until(() => asked(mock, 'POST', 'bulk').length, n => n === 2);
  assert.equal(asked(mock, 'POST', 'bulk')[1].body.per_second, 10);
});

test('completed jobs offer nothing to do, so nothing is selected', async t => {
  const { page } = await open(t, { path: 'jobs?state=completed' });
  await until(() => rows(page).count(), n => n === 50);
  assert.equal(await page.getByRole('checkbox').count(), 0);
});
