// Real jobs in every state, made as programs make them: enqueued by the API, worked by an HTTP worker.

const HOUR_MS = 3_600_000;

/** Fills the store; what comes back has the ids of the jobs by what became of them. */
export async function stock(server) {
  const { worker } = await server.work('', { name: 'php-7', queues: { media: 10 }, lease_s: 3_600 });
  const [completed, retryable, discarded, running] = await server.enqueue(
    { kind: 'video.encode', queue: 'media', args: { video: 8841, upload_token: 'ut_5f1c2b7a9d0e4c8f' }, tags: ['vip'] },
    { kind: 'video.thumbnail', queue: 'media', args: { video: 8842 }, max_attempts: 5 },
    { kind: 'video.publish', queue: 'media', args: { video: 8843 } },
    { kind: 'video.encode', queue: 'media', args: { video: 8844 }, key: 'encode/8844', timeout_ms: 2_700_000, meta: { tenant: 'north' } },
  );
  const { jobs } = await server.work(`/${worker}/turn`, { wait_s: 10 });
  const receipt = Object.fromEntries(jobs.map(job => [job.id, job.receipt]));
  await server.work(`/${worker}/turn`, {
    want: {},
    done: [
      { receipt: receipt[completed], outcome: 'complete', result: { url: 'https://cdn.example/8841.mp4', seconds: 12.5 } },
      { receipt: receipt[retryable], outcome: 'retry', error: 'EncoderError: moov atom not found', after_ms: HOUR_MS },
      { receipt: receipt[discarded], outcome: 'discard', error: 'there is no video 8843' },
    ],
  });
  const [available] = await server.enqueue({ kind: 'mail.send', queue: 'mail', args: { to: 'a@shop.example', password: 'hunter2-and-more' }, priority: -5 }, { kind: 'mail.send', queue: 'mail', args: { to: 'b@shop.example' } });
  const [scheduled] = await server.enqueue({ kind: 'report.build', queue: 'reports', args: { month: '2026-10' }, delay_ms: HOUR_MS });
  const [held] = await server.enqueue({ kind: 'import.row', queue: 'imports', args: { row: 1 } }, { kind: 'import.row', queue: 'imports', args: { row: 2 } });
  const [cancelled] = await server.enqueue({ kind: 'mail.digest', queue: 'mail', args: {} });
  await server.api('POST', `jobs/${cancelled}/cancel`);
  await server.api('POST', 'queues/imports/pause');
  await server.api('PUT', 'schedules/nightly.report', { cron: '0 3 * * *', zone: 'Europe/Berlin', job: { kind: 'report.build', queue: 'reports', args: { nightly: true } } });
  return { worker, completed, retryable, discarded, running, available, scheduled, held, cancelled };
}
