// What can be done with one job, for those who may.

import { useState } from 'preact/hooks';
import { act, busy, reply } from '../act';
import { path } from '../api/client';
import type { JobRecord, JobState } from '../api/schema';
import { may } from '../session';
import { go, to } from '../router';
import { Dialog } from './Dialog';
import { EditJob } from './EditJob';
import { Icon } from './Icon';

const RETRYABLE: readonly JobState[] = ['retryable', 'cancelled', 'discarded'];
const CANCELLABLE: readonly JobState[] = ['scheduled', 'available', 'running', 'retryable'];
const EDITABLE: readonly JobState[] = ['scheduled', 'available', 'retryable', 'cancelled', 'discarded'];

type Asked = 'cancel' | 'delete' | 'edit' | undefined;

export function JobActions({ job, revealed }: { job: JobRecord; revealed: unknown }) {
  const [asked, setAsked] = useState<Asked>();
  if (!may('operator')) return null;
  const close = (): void => setAsked(undefined);
  const at = path('jobs', job.id);
  const cancel = async (): Promise<void> => {
    const text = (answer: { reply: string }): string => (answer.reply === 'running' ? 'Its worker is told to stop; it will not be tried again' : reply(answer));
    if (await act('POST', `${at}/cancel`, text)) close();
  };
  const atOnce = (answer: { reply: string }): string => (answer.reply === 'edited' ? 'Available now' : reply(answer));
  const remove = async (): Promise<void> => {
    if (await act('DELETE', at, reply)) go(to(['jobs'], { state: job.state, queue: job.queue }));
  };
  return (
    <div class="tools">
      {RETRYABLE.includes(job.state) && <button class="btn" type="button" disabled={busy.value} onClick={() => void act('POST', `${at}/retry`, reply)}><Icon name="retry" />Retry now</button>}
      {job.state === 'scheduled' && <button class="btn" type="button" disabled={busy.value} onClick={() => void act('PATCH', at, atOnce, { now: true })}><Icon name="play" />Run now</button>}
      {EDITABLE.includes(job.state) && <button class="btn" type="button" onClick={() => setAsked('edit')}><Icon name="settings" />Edit…</button>}
      {EDITABLE.includes(job.state) && <button class="btn danger" type="button" onClick={() => setAsked('delete')}><Icon name="stop" />Delete…</button>}
      {CANCELLABLE.includes(job.state) && <button class="btn danger" type="button" onClick={() => setAsked('cancel')}><Icon name="x" />Cancel…</button>}
      {asked === 'edit' && <EditJob job={job} revealed={revealed} close={close} />}
      {asked === 'cancel' && <Ask title={`Cancel job ${job.id}?`} verb="Cancel it" run={cancel} close={close}>
        {job.state === 'running' ? 'A worker holds it. Its handler is told to stop; what it makes of that counts, and it will not be tried again.' : 'It will not run. It can be retried later, as long as it is kept.'}
      </Ask>}
      {asked === 'delete' && <Ask title={`Delete job ${job.id}?`} verb="Delete it" run={remove} close={close}>It is gone for good, with the errors of its attempts.</Ask>}
    </div>
  );
}

function Ask({ title, verb, run, close, children }: { title: string; verb: string; run(): Promise<void>; close(): void; children: string }) {
  return (
    <Dialog title={title} close={close} submit={run} verb={verb}>
      <p>{children}</p>
    </Dialog>
  );
}
