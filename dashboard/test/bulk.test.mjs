// Changes of many jobs whose calls fail: what is said of them has to be so.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings, open, until, useBrowser } from './browser.mjs';

useBrowser();

/** Asks to delete all jobs of the page, and has the button that confirms it. */
async function deletion(t) {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  await page.getByRole('checkbox', { name: 'Select every job of this page' }).check();
  await page.getByRole('button', { name: /Delete…/ }).click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /Delete 50/ });
  await until(() => confirm.isEnabled(), on => on);
  return { page, mock, confirm };
}

for (const [how, status, times] of [['answered by a proxy', 502, 1], ['lost', 0, Infinity], ['lost, and asked for once more by the browser', 0, 1]]) {
  test(`what was begun is followed though its answer is ${how}`, async t => {
    const { page, mock, confirm } = await deletion(t);
    mock.still = true;
    mock.lose('bulk/b_1/confirm', status, times);
    await confirm.click();
    await page.getByText('Deleting 50 jobs: 0 done').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.equal(await page.getByText('Nothing was changed').count(), 0);
    mock.still = false;
    await page.getByText('Deleted 50 jobs').waitFor();
  });
}

for (const [what, status] of [['bulk/b_1/confirm', 502], ['bulk/b_1', 0], ['bulk/b_1', 503]]) {
  test(`where nobody says whether it began, that is said: ${what}, ${status}`, async t => {
    const { page, mock, confirm } = await deletion(t);
    mock.fail(what, status);
    await confirm.click();
    await page.getByText(/It is not known whether it began: /).waitFor();
    assert.equal(await page.getByText('Nothing was changed').count(), 0);
    assert.deepEqual(await findings(page), []);
    if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT });
    mock.heal();
    await page.getByRole('button', { name: 'Try again' }).click();
    await until(() => mock.store.bulks.size, n => n === 2);
    await page.getByText('It is not known whether it began').waitFor({ state: 'detached' });
    await confirm.click();
    await page.getByText('Deleted 50 jobs').waitFor();
  });
}

test('a preview that fails changes nothing, and that is said', async t => {
  const { page, mock } = await open(t, { path: 'jobs?state=discarded' });
  mock.fail('bulk', 502);
  await page.getByRole('checkbox', { name: /^Select job/ }).first().check();
  await page.getByRole('button', { name: /Retry…/ }).click();
  await page.getByText(/Nothing was changed: Service unavailable/).waitFor();
});
