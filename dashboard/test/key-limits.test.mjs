// Limits of the keys of a queue, on its page: seen, found, changed, added, removed, refused.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings, open, overflow, SIZES, until, useBrowser } from './browser.mjs';

useBrowser();

const changes = mock => mock.calls.filter(call => call.method !== 'GET').map(({ method, path, body }) => [method, path, body]);
const panel = page => page.locator('section', { has: page.getByRole('heading', { name: 'Limits of keys' }) });

test('who may not change limits sees those of keys', async t => {
  for (const role of ['viewer', 'operator']) {
    const { page } = await open(t, { role, path: 'queues/webhooks' });
    await panel(page).getByText('20 at once').waitFor();
    assert.deepEqual(await panel(page).locator('li').allInnerTexts(), ['Each key\n20 at once', 'hooks.acme-retail.example\n5 at once, 100 per minute', 'hooks.bank.example/settlements\none after the other, weight 3']);
    assert.equal(await panel(page).getByRole('button').count(), 0, role);
  }
});

test('an admin changes what holds for each key', async t => {
  const { page, mock } = await open(t, { path: 'queues/webhooks' });
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Edit the limits of each key' }).click();
  assert.equal(await dialog.getByLabel('Jobs at once').inputValue(), '20');
  await dialog.getByLabel('One after the other').check();
  assert.deepEqual([await dialog.getByLabel('Jobs at once').inputValue(), await dialog.getByLabel('Jobs at once').isDisabled()], ['1', true]);
  await dialog.getByLabel('One after the other').uncheck();
  assert.equal(await dialog.getByLabel('Jobs at once').inputValue(), '20', 'what was there comes back');
  await dialog.getByLabel('Jobs at once').fill('');
  await dialog.getByLabel('Starts').fill('300');
  await dialog.locator('select').selectOption('hour');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await panel(page).getByText('300 per hour').waitFor();
  assert.deepEqual(changes(mock), [['PUT', 'queues/webhooks/key-limits', { rate: { count: 300, period_ms: 3_600_000 }, weight: 1 }]]);
});

test('a key is added, changed and removed', async t => {
  const { page, mock } = await open(t, { path: 'queues/webhooks' });
  const dialog = page.getByRole('dialog');
  const key = 'north/ä 1 %?#';
  await page.getByRole('button', { name: 'Add a key…' }).click();
  for (const wrong of ['', '.', '..']) {
    await dialog.getByLabel('Key', { exact: true }).fill(wrong);
    await dialog.getByRole('button', { name: 'Add' }).click();
    assert.equal(await dialog.getByLabel('Key', { exact: true }).evaluate(field => field.validity.valid), false, wrong);
  }
  await dialog.getByLabel('Key', { exact: true }).fill(key);
  await dialog.getByLabel('One after the other').check();
  await page.keyboard.press('Enter');
  await panel(page).locator('li', { hasText: key }).getByText('one after the other').waitFor();
  await page.getByRole('button', { name: `Edit the limits of key ${key}` }).click();
  await dialog.getByLabel('Share beside other keys').fill('7');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await panel(page).getByText('one after the other, weight 7').waitFor();
  await page.getByRole('button', { name: `Remove the limits of key ${key}` }).click();
  await dialog.getByText('What holds for each key holds for it then').waitFor();
  await dialog.getByRole('button', { name: 'Back' }).click();
  await page.getByRole('button', { name: `Remove the limits of key ${key}` }).click();
  await dialog.getByRole('button', { name: 'Remove them' }).click();
  await panel(page).locator('li', { hasText: key }).waitFor({ state: 'detached' });
  const path = `queues/webhooks/key-limits/${key}`;
  assert.deepEqual(changes(mock), [['PUT', path, { serial: true, weight: 1 }], ['PUT', path, { serial: true, weight: 7 }], ['DELETE', path, '']]);
});

test('all limits of keys are taken away, and given anew', async t => {
  const { page, mock } = await open(t, { path: 'queues/webhooks' });
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Remove all limits of keys' }).click();
  await dialog.getByText('The limits of single keys go, too').waitFor();
  await dialog.getByRole('button', { name: 'Remove them' }).click();
  await panel(page).getByText('whatever their keys').waitFor();
  assert.equal(mock.store.keys.has('webhooks'), false);
  await page.getByRole('button', { name: 'Limit each key…' }).click();
  await dialog.getByLabel('Jobs at once').fill('4');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await panel(page).getByText('4 at once').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Limit each key…' }).count(), 0);
});

test('what the server refuses is said, and the form stays', async t => {
  const { page, mock } = await open(t, { path: 'queues/webhooks' });
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Edit the limits of key hooks.acme-retail.example' }).click();
  await dialog.getByLabel('Share beside other keys').fill('1001');
  await dialog.getByLabel('Share beside other keys').evaluate(field => field.removeAttribute('max'));
  await dialog.getByRole('button', { name: 'Change' }).click();
  await page.getByText('Invalid option: the weight of a key must be 1 to 1000, got 1001', { exact: true }).waitFor();
  assert.ok(await dialog.isVisible());
  assert.equal(mock.store.keys.get('webhooks').named.get('hooks.acme-retail.example').weight, 1);
});

test('of many keys a page is shown, and the others are found', async t => {
  const { page, mock } = await open(t, { path: 'queues/mail' });
  mock.store.keys.set('mail', { default: { weight: 1 }, named: new Map(Array.from({ length: 1_000 }, (_, n) => [`tenant-${String(n).padStart(4, '0')}`, { concurrency: n + 1, weight: 1 }])) });
  await page.reload();
  const names = async () => (await panel(page).locator('li .mono').allTextContents()).join();
  const page_ = (from, n = 20) => Array.from({ length: n }, (_, i) => `tenant-${String(from + i).padStart(4, '0')}`).join();
  await until(names, text => text === page_(0));
  await page.getByRole('button', { name: 'More' }).click();
  await until(names, text => text === page_(20));
  await page.getByRole('searchbox', { name: 'Part of a key' }).pressSequentially('NT-099');
  await until(names, text => text === page_(990, 10));
  await page.getByRole('searchbox').fill('nobody');
  await page.getByText('No key with limits of its own has this in it').waitFor();
  await page.getByRole('searchbox').fill('');
  await until(names, text => text === page_(0));
  await page.getByRole('button', { name: 'More' }).click();
  await page.getByRole('button', { name: 'First page' }).click();
  await until(names, text => text === page_(0));
});

for (const size of Object.keys(SIZES)) {
  test(`long keys and the forms fit, ${size}`, async t => {
    const { page, mock } = await open(t, { size, path: 'queues/webhooks' });
    mock.store.keys.get('webhooks').named.set('x'.repeat(200), { concurrency: 1_000_000, rate: { count: 1_000_000_000, period_ms: 250 }, weight: 1_000 });
    await page.reload();
    await panel(page).getByText('1,000,000 at once, 1,000,000,000 per 250 ms, weight 1000').waitFor();
    assert.equal(await overflow(page), null);
    assert.deepEqual(await findings(page), []);
    for (const button of [`Edit the limits of key ${'x'.repeat(200)}`, 'Add a key…', `Remove the limits of key ${'x'.repeat(200)}`]) {
      await page.getByRole('button', { name: button }).click();
      assert.equal(await page.getByRole('dialog').evaluate(dialog => dialog.scrollWidth - dialog.clientWidth), 0, button);
      assert.deepEqual(await findings(page), [], button);
      await page.getByRole('button', { name: 'Back' }).click();
    }
  });
}
