// What can be changed of jobs that do not run, of one or of many: all but the args.

import { useOverview } from '../api/live';

export interface Fields {
  queue: string;
  priority: string;
  attempts: string;
  /** In the reader's zone. */
  when: string;
}

export const UNCHANGED: Fields = { queue: '', priority: '', attempts: '', when: '' };

/** What is different, as the server takes it; what is empty stays. */
export function edited(fields: Fields, before: Fields): Record<string, unknown> {
  const differs = (name: keyof Fields): boolean => !!fields[name].trim() && fields[name].trim() !== before[name];
  return {
    ...(differs('queue') && { queue: fields.queue.trim() }),
    ...(differs('priority') && { priority: Number(fields.priority) }),
    ...(differs('attempts') && { max_attempts: Number(fields.attempts) }),
    ...(differs('when') && { scheduled_at: new Date(fields.when).toISOString() }),
  };
}

export function EditFields({ fields, change, timed }: { fields: Fields; change(fields: Fields): void; timed: boolean }) {
  const queues = useOverview().data.value?.queues ?? [];
  const field = (name: keyof Fields, label: string, more: Record<string, unknown>) => (
    <label class="confirm"><span>{label}</span><input class="field tab" {...more} value={fields[name]} onInput={event => change({ ...fields, [name]: event.currentTarget.value })} /></label>
  );
  return (
    <>
      <div class="fields">
        {field('queue', 'Queue', { list: 'edit-queues' })}
        {field('priority', 'Priority, lower runs first', { type: 'number', min: -100, max: 100 })}
        {field('attempts', 'Attempts in all', { type: 'number', min: 1 })}
      </div>
      <datalist id="edit-queues">{queues.map(({ name }) => <option key={name} value={name} />)}</datalist>
      {timed && field('when', 'Available from, your time; a time in the past means at once', { type: 'datetime-local', step: 1 })}
    </>
  );
}
