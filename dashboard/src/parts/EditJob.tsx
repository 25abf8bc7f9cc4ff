// Changes a job that does not run. Only what is different is sent.

import { useState } from 'preact/hooks';
import { act, busy, reply } from '../act';
import { parse, path } from '../api/client';
import type { JobRecord } from '../api/schema';
import { useOverview } from '../api/live';
import { Dialog } from './Dialog';

const pad = (n: number): string => String(n).padStart(2, '0');

/** The form of a field of date and time, in the reader's zone. */
function local(at: string | null): string {
  if (!at) return '';
  const date = new Date(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

export function EditJob({ job: now, revealed, close }: { job: JobRecord; revealed: unknown; close(): void }) {
  // As it was when the form opened: what others change meanwhile is not to be written back.
  const [job] = useState(now);
  // Values that are hidden or left out must not be written back as what stands for them.
  const shown = job.redacted || job.cut ? revealed : job.args;
  const [argsBefore] = useState(shown === undefined ? null : JSON.stringify(shown, null, 2));
  const dead = job.state === 'cancelled' || job.state === 'discarded';
  const [queue, setQueue] = useState(job.queue);
  const [priority, setPriority] = useState(String(job.priority));
  const [attempts, setAttempts] = useState(String(job.max_attempts));
  const whenBefore = local(job.scheduled_at);
  const [when, setWhen] = useState(whenBefore);
  const [args, setArgs] = useState(argsBefore ?? '');
  const [wrong, setWrong] = useState('');
  const queues = useOverview().data.value?.queues ?? [];

  const save = async (): Promise<void> => {
    const edit: Record<string, unknown> = {};
    if (queue.trim() !== job.queue) edit['queue'] = queue.trim();
    if (Number(priority) !== job.priority) edit['priority'] = Number(priority);
    if (Number(attempts) !== job.max_attempts) edit['max_attempts'] = Number(attempts);
    if (when && when !== whenBefore) edit['scheduled_at'] = new Date(when).toISOString();
    if (argsBefore !== null && args !== argsBefore) {
      try {
        edit['args'] = parse(args);
      } catch (error) {
        return setWrong(`The args are not JSON: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    if (!Object.keys(edit).length) return setWrong('Nothing is different yet.');
    if (await act('PATCH', path('jobs', job.id), reply, edit)) close();
  };
  return (
    <Dialog title={`Edit job ${job.id}`} close={close} submit={() => void save()} note="Left alone if a worker takes it first"
      tools={<><button class="btn" type="button" onClick={close}>Back</button><button class="btn primary" type="submit" disabled={busy.value}>Change</button></>}>
      <div class="fields">
        <label class="confirm"><span>Queue</span><input class="field" list="edit-queues" value={queue} onInput={event => setQueue(event.currentTarget.value)} /></label>
        <label class="confirm"><span>Priority, lower runs first</span><input class="field tab" type="number" min={-100} max={100} value={priority} onInput={event => setPriority(event.currentTarget.value)} /></label>
        <label class="confirm"><span>Attempts in all</span><input class="field tab" type="number" min={1} value={attempts} onInput={event => setAttempts(event.currentTarget.value)} /></label>
      </div>
      <datalist id="edit-queues">{queues.map(({ name }) => <option key={name} value={name} />)}</datalist>
      {!dead && <label class="confirm"><span>Available from, your time; a time in the past means at once</span><input class="field tab" type="datetime-local" step={1} value={when} onInput={event => setWhen(event.currentTarget.value)} /></label>}
      {argsBefore === null ? <p class="small">The args are not shown as a whole; reveal them first to change them.</p>
        : <label class="confirm"><span>Args, JSON</span><textarea class="field mono" rows={8} spellcheck={false} value={args} onInput={event => setArgs(event.currentTarget.value)} /></label>}
      {wrong && <p class="bad" role="alert">{wrong}</p>}
    </Dialog>
  );
}
