// What is done to one job, by the real server: each change is in the store afterwards, as the command line sees it.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { findings, until, useBrowser } from './browser.mjs';
import { overStores, visit } from './server.mjs';

useBrowser();

/** A job whose only attempt was given up, worked by a program. */
async function dead(server, kind) {
  const [id] = await server.enqueue({ kind, queue: kind, args: { n: 1 }, max_attempts: 1 });
  await server.cli('work', '--queue', kind, '--until-empty', '--exec', 'echo "no such host" >&2; exit 1');
  assert.equal((await server.job(id)).state, 'discarded');
  return id;
}

const shown = (server, id) => server.cli('jobs', 'show', id);
const badge = (page, state) => page.locator(`h1 .badge.${state}`).waitFor();

overStores((real, test) => {
  test('a discarded job is retried', async t => {
    const { server } = real;
    const id = await dead(server, 'retried');
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await page.getByText('no such host').first().waitFor();
    await badge(page, 'discarded');
    await page.getByRole('button', { name: 'Retry now' }).click();
    await page.getByText('Available now').waitFor();
    await badge(page, 'available');
    assert.equal(await page.getByRole('button', { name: 'Retry now' }).count(), 0);
    assert.equal((await shown(server, id)).state, 'available');
  });

  test('an available job is cancelled, and retried', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'cancelled' });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByText('It will not run').waitFor();
    assert.deepEqual(await findings(page), []);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal((await shown(server, id)).state, 'available');
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('button', { name: 'Cancel it' }).click();
    await badge(page, 'cancelled');
    assert.equal((await shown(server, id)).state, 'cancelled');
    await page.getByRole('button', { name: 'Retry now' }).click();
    await badge(page, 'available');
    assert.equal((await shown(server, id)).state, 'available');
  });

  test('a scheduled job is run now', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'later', delay_ms: 3_600_000 });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await badge(page, 'scheduled');
    assert.equal(await page.getByRole('button', { name: 'Retry now' }).count(), 0, 'it was not tried yet');
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('Available now').waitFor();
    await badge(page, 'available');
    assert.equal((await shown(server, id)).state, 'available');
  });

  test('the program of a running job is stopped', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'long', queue: 'held' });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await badge(page, 'available');
    server.worker('--queue', 'held', '--exec', 'sleep 600');
    await badge(page, 'running');
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByText('A worker holds it. Its handler is told to stop').waitFor();
    await page.getByRole('button', { name: 'Cancel it' }).click();
    await page.getByText('Its worker is told to stop').waitFor();
    await badge(page, 'cancelled');
    assert.equal((await shown(server, id)).state, 'cancelled');
  });

  test('a job is edited: where, when, how often, with what', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'edited', args: { n: 1, text: 'before' } });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await page.getByRole('button', { name: 'Edit…' }).click();
    const dialog = page.getByRole('dialog');
    assert.deepEqual(await findings(page), []);
    await dialog.getByLabel('Queue').fill('no queue');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await page.getByText(/queue/i).filter({ hasText: 'no queue' }).first().waitFor();
    assert.ok(await dialog.isVisible(), 'what is refused can be mended');
    await dialog.getByLabel('Queue').fill('moved');
    await dialog.getByLabel('Priority').fill('-7');
    await dialog.getByLabel('Attempts in all').fill('3');
    await dialog.getByLabel('Available from').fill('2031-01-31T09:00:00');
    await dialog.getByLabel('Args, JSON').fill('{"n": 9007199254740993, "price": 12345678901234567.890, "text": "after"}');
    await dialog.getByRole('button', { name: 'Change' }).click();
    await dialog.waitFor({ state: 'detached' });
    await badge(page, 'scheduled');
    await page.getByText('9007199254740993').waitFor();
    const { queue, priority, max_attempts, scheduled_at, state } = await shown(server, id);
    assert.deepEqual({ queue, priority, max_attempts, at: Date.parse(scheduled_at), state }, { queue: 'moved', priority: -7, max_attempts: 3, at: Date.parse('2031-01-31T08:00:00Z'), state: 'scheduled' });
    await page.getByRole('button', { name: 'Edit…' }).click();
    assert.equal(await dialog.getByLabel('Available from').inputValue(), '2031-01-31T09:00');
    await dialog.getByLabel('Available from').fill('2001-01-31T09:00:00');
    const args = dialog.getByLabel('Args, JSON');
    await args.fill((await args.inputValue()).replace('after', 'last'));
    await dialog.getByRole('button', { name: 'Change' }).click();
    await badge(page, 'available');
    assert.equal((await shown(server, id)).state, 'available');
    const text = await (await fetch(`${server.url}api/v1/jobs/${id}`, { headers: { authorization: `Bearer ${server.tokens.admin}` } })).text();
    for (const part of ['9007199254740993', '12345678901234567.890', '"last"']) assert.ok(text.includes(part), text);
  });

  test('a job is deleted, and its page says so to others', async t => {
    const { server } = real;
    const id = await dead(server, 'deleted');
    const other = await visit(t, server, { path: `jobs/${id}`, role: 'viewer' });
    await badge(other.page, 'discarded');
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('button', { name: 'Delete it' }).click();
    await page.waitForURL('**/jobs?state=discarded&queue=deleted');
    await page.getByText('No job matches').waitFor();
    assert.equal((await server.ask('GET', `api/v1/jobs/${id}`)).status, 404);
    await other.page.getByText(/does not exist|there is no job|was removed/i).first().waitFor();
  });

  test('hidden values are revealed to an admin, which is written down', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'secret', args: { password: 'hunter2-and-more' } });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await page.getByText('16 characters hidden').waitFor();
    await page.getByRole('button', { name: 'Reveal…' }).click();
    await page.getByLabel('Why, for the audit log').fill('ticket 7 & more');
    await page.getByRole('button', { name: 'Reveal', exact: true }).click();
    await page.getByText('hunter2-and-more').waitFor();
    await page.goto(`${server.url}audit`);
    await page.getByText('ticket 7 & more').waitFor();
    await page.getByRole('link', { name: `/jobs/${id}/args` }).first().click();
    await page.waitForURL(`**/jobs/${id}`);
    await page.getByText('16 characters hidden').waitFor();
  });

  test('progress, log, checkpoint and result come by themselves', async t => {
    const { server } = real;
    const [id] = await server.enqueue({ kind: 'a', queue: 'told', args: {} });
    const { page } = await visit(t, server, { path: `jobs/${id}` });
    await badge(page, 'available');
    // It goes on when its folder has a file of this name.
    const lines = [{ type: 'progress', percent: 62, note: 'segment 255 of 412' }, { type: 'log', text: 'audio drift 41 ms' }, { type: 'checkpoint', value: { segment: 255 } }];
    const say = line => `echo '${JSON.stringify({ ticket: 1, ...line })}'`;
    server.worker('--queue', 'told', '--stdio', [`echo '{"type":"ready","protocol":1}'`, 'read job', ...lines.map(say), 'while [ ! -e go-on ]; do sleep 0.05; done', say({ type: 'complete', result: { frames: 412 } }), 'while read line; do :; done'].join('; '));
    for (const part of ['62 %', 'segment 255 of 412', 'audio drift 41 ms', 'Checkpoint']) await until(() => page.locator('main').innerText(), text => text.includes(part), part);
    writeFileSync(`${server.folder}/go-on`, '');
    await badge(page, 'completed');
    await until(() => page.locator('main').innerText(), text => text.includes('Result') && text.includes('412'));
    assert.equal((await shown(server, id)).state, 'completed');
  });
});
