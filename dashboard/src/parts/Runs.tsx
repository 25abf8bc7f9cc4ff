// Bulk changes under way: how far, and the way to stop them.

import { useEffect } from 'preact/hooks';
import { act, busy } from '../act';
import { path } from '../api/client';
import { useTopic } from '../api/live';
import type { Bulk } from '../api/schema';
import { dismiss, ended, runs, VERBS } from '../bulk';
import { asText } from '../filter';
import { count, plural } from '../format';
import { Icon } from './Icon';
import { tell } from './Say';

const OVER: readonly Bulk['state'][] = ['done', 'stopped', 'failed'];

function text(run: Bulk): string {
  const { doing, done } = VERBS[run.action];
  const asked = run.asked ? `; ${plural(run.asked, 'running one')} told to stop` : '';
  switch (run.state) {
    case 'done':
      return `${done} ${plural(run.done, 'job')}${asked}${run.left ? `; ${plural(run.left, 'job')} left alone, for ${run.left === 1 ? 'it' : 'they'} had moved on` : ''}`;
    case 'stopped':
      return `Stopped after ${plural(run.done, 'job')} of ${count(run.count)}${asked}`;
    case 'failed':
      return `Failed after ${plural(run.done, 'job')} of ${count(run.count)}: ${run.error ?? 'no reason was given'}`;
    default:
      return `${doing} ${count(run.count)} jobs: ${count(run.done)} done${asked}`;
  }
}

function Run({ id }: { id: string }) {
  const { data, problem } = useTopic<Bulk>(`bulk:${id}`);
  const run = data.value;
  const over = !!run && OVER.includes(run.state);
  useEffect(() => {
    if (over) ended.value++;
  }, [over]);
  // The server keeps the result for a while; when it is gone there is nothing to follow.
  const gone = problem.value?.status === 404;
  useEffect(() => {
    if (!gone) return;
    dismiss(id);
    tell('The server does not know that bulk change any more; what was done is done', true);
  }, [gone, id]);
  if (!run) return null;
  const so_far = run.done + run.asked + run.left;
  return (
    <li class="run">
      <div class="grow">
        <p class={run.state === 'failed' ? 'bad' : undefined}>{text(run)}</p>
        {run.filter && <p class="small faint clip"><code>{asText(run.filter)}</code></p>}
        {!over && <progress class="big" max={Math.max(1, run.count)} value={Math.min(so_far, run.count)} aria-label={`${count(so_far)} of ${count(run.count)} jobs`} />}
      </div>
      {over ? <button class="btn quiet only" type="button" aria-label="Close" onClick={() => dismiss(id)}><Icon name="x" /></button>
        : <button class="btn danger" type="button" disabled={busy.value} onClick={() => void act('DELETE', path('bulk', id), 'Stopped')}><Icon name="stop" />Stop</button>}
    </li>
  );
}

export function Runs() {
  if (!runs.value.length) return null;
  return <section class="runs" aria-label="Bulk changes"><ul aria-live="polite">{runs.value.map(id => <Run key={id} id={id} />)}</ul></section>;
}
