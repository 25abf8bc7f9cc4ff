// Changes a job that does not run. Only what is different is sent.

import { useState } from 'preact/hooks';
import { act, reply } from '../act';
import { mayBeRounded, parse, path } from '../api/client';
import type { JobRecord } from '../api/schema';
import { isDead } from '../filter';
import { Dialog } from './Dialog';
import { edited, EditFields, type Fields } from './EditFields';

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
  const [before] = useState<Fields>({ queue: job.queue, priority: String(job.priority), attempts: String(job.max_attempts), when: local(job.scheduled_at) });
  const [fields, setFields] = useState(before);
  const [args, setArgs] = useState(argsBefore ?? '');
  const [wrong, setWrong] = useState('');

  const save = async (): Promise<void> => {
    const edit = edited(fields, before);
    if (argsBefore !== null && args !== argsBefore) {
      try {
        edit['args'] = parse(args);
      } catch (error) {
        return setWrong(`The args are not JSON: ${error instanceof Error ? error.message : String(error)}`);
      }
      if (mayBeRounded([shown, edit['args']])) return setWrong('This browser rounds long numbers and fractions; change such args with a newer one, or by the API.');
    }
    if (!Object.keys(edit).length) return setWrong('Nothing is different yet.');
    if (await act('PATCH', path('jobs', job.id), reply, edit)) close();
  };
  return (
    <Dialog title={`Edit job ${job.id}`} close={close} submit={save} note="Left alone if a worker takes it first" verb="Change">
      <EditFields fields={fields} change={setFields} timed={!isDead(job.state)} />
      {argsBefore === null ? <p class="small">The args are not shown as a whole; reveal them first to change them.</p>
        : <label class="confirm"><span>Args, JSON</span><textarea class="field mono" rows={8} spellcheck={false} value={args} onInput={event => setArgs(event.currentTarget.value)} /></label>}
      {wrong && <p class="bad" role="alert">{wrong}</p>}
    </Dialog>
  );
}
