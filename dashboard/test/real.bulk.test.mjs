// Many jobs at once, by the real server: previewed, confirmed, and in the store afterwards. Counts are those of the store.

import assert from 'node:assert/strict';
import { findings, until, useBrowser } from './browser.mjs';
import { overStores, visit } from './server.mjs';

useBrowser();

const rows = page => page.locator('table[data-list] tbody tr');
const many = (n, job) => Array.from({ length: n }, (_, i) => ({ ...job, args: { n: i } }));

/** How many jobs of a queue are in each state, but for the states without any. */
async function counts(server, queue) {
  const { queues } = await server.cli('status');
  const of = queues.find(({ name }) => name === queue);
  const states = ['available', 'scheduled', 'retryable', 'running', 'completed', 'cancelled', 'discarded'];
  return Object.fromEntries(states.map(state => [state, of[state]]).filter(([, n]) => n));
}

/** Asks for this with all jobs of the filter, and has the dialog. */
async function ask(page, verb) {
  await rows(page).first().getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Select all that match' }).click();
  await page.getByRole('button', { name: new RegExp(`^${verb}…`) }).click();
  return page.getByRole('dialog');
}

overStores((real, test) => {
  test('all that match are cancelled by their number, then retried, then deleted', async t => {
    const { server } = real;
    await server.enqueue(...many(130, { kind: 'x', queue: 'all' }), ...many(5, { kind: 'y', queue: 'all' }));
    const { page } = await visit(t, server, { path: 'jobs?state=available&queue=all&kind=x' });
    let dialog = await ask(page, 'Cancel');
    await dialog.getByText('Type 130 to confirm').waitFor();
    assert.deepEqual(await findings(page), []);
    assert.ok(await dialog.getByRole('button', { name: 'Cancel 130' }).isDisabled());
    assert.deepEqual(await counts(server, 'all'), { available: 135 }, 'a preview changes nothing');
    await dialog.getByRole('textbox').fill('130');
    await page.keyboard.press('Enter');
    await page.getByText('Cancelled 130 jobs').waitFor();
    await page.getByText('No job matches').waitFor();
    assert.deepEqual(await counts(server, 'all'), { available: 5, cancelled: 130 });

    await page.goto(`${server.url}jobs?state=cancelled&queue=all`);
    dialog = await ask(page, 'Retry');
    await dialog.getByLabel('Type 130 to confirm').fill('130');
    await dialog.getByRole('button', { name: 'Retry 130' }).click();
    await page.getByText('Retried 130 jobs').waitFor();
    assert.deepEqual(await counts(server, 'all'), { available: 135 });

    await page.goto(`${server.url}jobs?state=available&queue=all&kind=x`);
    dialog = await ask(page, 'Delete');
    await dialog.getByLabel('Type 130 to confirm').fill('130');
    await dialog.getByRole('button', { name: 'Delete 130' }).click();
    await page.getByText('Deleted 130 jobs').waitFor();
    assert.deepEqual(await counts(server, 'all'), { available: 5 });
    await page.goto(`${server.url}audit`);
    for (const action of ['bulk.preview', 'bulk.confirm']) await page.getByText(action).first().waitFor();
    await page.getByText('130 jobs').first().waitFor();
  });

  for (const [verb, done, after] of [['Cancel', 'Cancelled', { available: 2, cancelled: 2 }], ['Delete', 'Deleted', { available: 2 }]]) {
    test(`${verb}: those that were selected and no others`, async t => {
      const { server } = real;
      const queue = `some-${verb.toLowerCase()}`;
      await server.enqueue(...many(4, { kind: 'x', queue }));
      const { page } = await visit(t, server, { path: `jobs?state=available&queue=${queue}` });
      await until(() => rows(page).count(), n => n === 4);
      const chosen = [];
      for (const n of [0, 2]) {
        await rows(page).nth(n).getByRole('checkbox').check();
        chosen.push(await rows(page).nth(n).locator('.mono').first().textContent());
      }
      await page.getByRole('button', { name: new RegExp(`^${verb}…`) }).click();
      await page.getByRole('dialog').getByRole('button', { name: `${verb} 2` }).click();
      await page.getByText(`${done} 2 jobs`).waitFor();
      assert.deepEqual(await counts(server, queue), after);
      const left = (await server.api('GET', `jobs?queue=${queue}&state=available`)).items.map(({ id }) => id);
      assert.equal(left.filter(id => chosen.includes(id)).length, 0);
    });
  }

  test('all that match are edited, and no others', async t => {
    const { server } = real;
    await server.enqueue(...many(120, { kind: 'x', queue: 'edited' }), ...many(2, { kind: 'y', queue: 'edited' }));
    const { page } = await visit(t, server, { path: 'jobs?state=available&queue=edited&kind=x' });
    const dialog = await ask(page, 'Edit');
    await dialog.getByLabel('Priority, lower runs first').fill('-5');
    await dialog.getByLabel('Attempts in all').fill('3');
    await dialog.getByLabel(/Available from/).fill('2999-01-01T00:00:00');
    await page.keyboard.press('Enter');
    await dialog.getByText('Type 120 to confirm').waitFor();
    assert.deepEqual(await counts(server, 'edited'), { available: 122 }, 'a preview changes nothing');
    await dialog.getByRole('textbox').fill('120');
    await dialog.getByRole('button', { name: 'Edit 120' }).click();
    await page.getByText('Edited 120 jobs').waitFor();
    assert.deepEqual(await counts(server, 'edited'), { available: 2, scheduled: 120 });
    const { items } = await server.api('GET', 'jobs?queue=edited&state=scheduled&limit=200');
    const changed = ({ kind, priority, max_attempts: attempts }) => kind === 'x' && priority === -5 && attempts === 3;
    assert.deepEqual([items.length, items.every(changed)], [120, true]);
  });

  test('dead jobs are retried by the keyboard alone', async t => {
    const { server } = real;
    await server.enqueue(...many(3, { kind: 'x', queue: 'dead', max_attempts: 1 }));
    await server.cli('work', '--queue', 'dead', '--until-empty', '--exec', 'exit 65');
    assert.deepEqual(await counts(server, 'dead'), { discarded: 3 });
    const { page } = await visit(t, server, { path: 'jobs?state=discarded&queue=dead' });
    await until(() => rows(page).count(), n => n === 3);
    for (const key of ['j', 'x', 'j', 'x', 'r']) await page.keyboard.press(key);
    await page.getByRole('heading', { name: 'Retry 2 jobs?' }).waitFor();
    await page.getByRole('button', { name: 'Retry 2' }).waitFor();
    const at = () => page.evaluate(() => document.activeElement.textContent);
    for (let n = 0; n < 9 && (await at()) !== 'Retry 2'; n++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('Retried 2 jobs').waitFor();
    assert.deepEqual(await counts(server, 'dead'), { available: 2, discarded: 1 });
  });

  test('a slow one is followed on other pages and after a reload, and stopped', async t => {
    const { server } = real;
    await server.enqueue(...many(100, { kind: 'x', queue: 'slow' }));
    const { page } = await visit(t, server, { path: 'jobs?state=available&queue=slow' });
    const dialog = await ask(page, 'Cancel');
    await dialog.getByLabel('Pace').selectOption('1 a second');
    await dialog.getByRole('button', { name: 'Cancel 100' }).click();
    await page.getByRole('progressbar', { name: /of 100 jobs/ }).waitFor();
    await page.getByRole('link', { name: 'Workers' }).first().click();
    await page.getByText(/Cancelling 100 jobs: [1-9]/).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText(/Stopped after \d+ jobs? of 100/).waitFor();
    const { available, cancelled } = await counts(server, 'slow');
    assert.ok(cancelled >= 1 && available + cancelled === 100 && available > 20, JSON.stringify({ available, cancelled }));
  });

  test('jobs that moved on are left alone, and that is said', async t => {
    const { server } = real;
    const ids = await server.enqueue(...many(3, { kind: 'x', queue: 'moved-on' }));
    const { page } = await visit(t, server, { path: 'jobs?state=available&queue=moved-on' });
    await until(() => rows(page).count(), n => n === 3);
    await page.getByRole('checkbox', { name: 'Select every job of this page' }).check();
    await page.getByRole('button', { name: /^Cancel…/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 3' }).waitFor();
    await server.cli('jobs', 'delete', ids[0]);
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 3' }).click();
    await page.getByText('Cancelled 2 jobs; 1 job left alone').waitFor();
    assert.deepEqual(await counts(server, 'moved-on'), { cancelled: 2 });
  });
});
