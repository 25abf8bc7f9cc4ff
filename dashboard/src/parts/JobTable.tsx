import { useEffect, useRef } from 'preact/hooks';
import type { JobRecord, JobState } from '../api/schema';
import { row } from '../keys';
import { toJob } from '../router';
import { Badge } from './Icon';
import { ArgsLine } from './Json';
import { Ago, Until } from './Time';

interface JobTableProps {
  jobs: readonly JobRecord[];
  state: JobState | undefined;
  /** `undefined`: nothing can be done with them, so nothing is selected. */
  selected: ReadonlySet<string> | undefined;
  select(ids: ReadonlySet<string>): void;
}

const WHEN: Partial<Record<JobState, string>> = { scheduled: 'Due', available: 'Waits for', running: 'Held for', retryable: 'Next attempt', completed: 'Ended', cancelled: 'Ended', discarded: 'Ended' };

function When({ job }: { job: JobRecord }) {
  if (job.finished_at) return <Ago at={job.finished_at} />;
  if ((job.state === 'scheduled' || job.state === 'retryable') && job.scheduled_at) return <Until at={job.scheduled_at} />;
  return <Ago at={(job.state === 'running' && job.claimed_at) || job.enqueued_at} word="" />;
}

function Row({ job, at, selected, toggle }: { job: JobRecord; at: boolean; selected: boolean | undefined; toggle(on: boolean): void }) {
  return (
    <tr class={at ? 'at' : undefined} aria-selected={selected}>
      {selected !== undefined && <td class="j-pick"><input type="checkbox" aria-label={`Select job ${job.id}`} checked={selected} onChange={event => toggle(event.currentTarget.checked)} /></td>}
      <td class="j-what clip"><a class="name" href={toJob(job.id)}>{job.kind}</a><br /><span class="sub mono">{job.id}</span></td>
      <td class="clip j-args"><ArgsLine of={job.args} /><br /><span class="sub">{job.reason ? <b class={job.state === 'discarded' ? 'bad' : 'muted'}>{job.reason.split('\n')[0]}</b> : <>{job.queue}{job.key && <> · key <span class="mono">{job.key}</span></>}{job.tags.map(tag => <span key={tag}> · {tag}</span>)}</>}</span></td>
      <td class="j-state"><Badge state={job.state} /></td>
      <td class="num j-try wide-only">{job.attempt} / {job.max_attempts}</td>
      <td class="num j-when"><When job={job} /></td>
    </tr>
  );
}

export function JobTable({ jobs, state, selected, select }: JobTableProps) {
  const all = useRef<HTMLInputElement>(null);
  const on = selected ? jobs.filter(job => selected.has(job.id)).length : 0;
  useEffect(() => {
    if (all.current) all.current.indeterminate = on > 0 && on < jobs.length;
  });
  const toggle = (id: string, checked: boolean): void => {
    const next = new Set(selected);
    if (checked) next.add(id);
    else next.delete(id);
    select(next);
  };
  const toggleAll = (checked: boolean): void => select(new Set(checked ? jobs.map(job => job.id) : []));
  return (
    <table class={selected ? 'grid cards cards-jobs' : 'grid cards cards-jobs unpicked'} data-list>
      <thead><tr>
        {selected && <th scope="col" class="pick"><input type="checkbox" ref={all} aria-label="Select every job of this page" checked={on === jobs.length} onChange={event => toggleAll(event.currentTarget.checked)} /></th>}
        <th scope="col" class="c-what">Job</th><th scope="col">Args, and what else there is</th><th scope="col" class="c-state">State</th><th scope="col" class="num c-try">Attempt</th><th scope="col" class="num c-when">{(state && WHEN[state]) ?? 'Time'}</th>
      </tr></thead>
      <tbody>{jobs.map((job, i) => <Row key={job.id} job={job} at={row.value === i} selected={selected?.has(job.id)} toggle={checked => toggle(job.id, checked)} />)}</tbody>
    </table>
  );
}
