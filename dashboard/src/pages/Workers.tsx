import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { act } from '../act';
import { path } from '../api/client';
import { useOverview } from '../api/live';
import type { Overview, QueueStats, WorkerRecord } from '../api/schema';
import { bytes, count, jobs, plural, rate, span } from '../format';
import { row } from '../keys';
import { to, toQueue } from '../router';
import { may } from '../session';
import { isAtWork, takesJobs } from '../workers';
import { Dialog } from '../parts/Dialog';
import { Panel } from '../parts/Panel';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Stat, Stats } from '../parts/Stats';
import { Ago } from '../parts/Time';

function Drain({ worker: { id, name }, close }: { worker: WorkerRecord; close(): void }) {
  const drain = async (): Promise<void> => {
    if (await act('POST', `${path('workers', id)}/drain`, `${name} drains`)) close();
  };
  return (
    <Dialog title={`Drain worker ${name}?`} close={close} submit={drain} verb="Drain it">
      <p>It takes no more jobs, ends those it runs, and goes. This cannot be taken back.</p>
    </Dialog>
  );
}

const HEADS = [['Worker'], ['State'], ['Program', 'lo2'], ['Queues'], ['Done /s', 'num lo2'], ['Heartbeat', 'num'], ['Up', 'num'], ['Memory', 'num lo']];
const known = (n: number | null | false, text: (n: number) => string): string => (typeof n === 'number' ? text(n) : '–');

function Row({ worker, at, drain }: { worker: WorkerRecord; at: boolean; drain(): void }) {
  // How long a worker may say nothing is its own affair: one that comes by HTTP is silent while it runs a job.
  const [dot, state] = !worker.live ? ['bad', 'gone'] : worker.draining ? ['warn', 'draining'] : ['ok', 'live'];
  return (
    <tr class={[!worker.live && 'dim', at && 'at'].filter(Boolean).join(' ') || undefined}>
      <td class="w-name clip"><span class="name">{worker.name}</span> <span class="sub mono">{worker.id}</span></td>
      <td class="w-state"><span class="row"><span class={`dot ${dot}`} />{state}{state === 'live' && takesJobs(worker) && may('operator') && <button class="btn quiet" type="button" aria-label={`Drain ${worker.name}`} onClick={drain}>Drain…</button>}</span></td>
      <td class="wide-only lo2 muted" title={worker.engine!}>{[worker.program, worker.app_version].filter(Boolean).join(' ') || worker.engine || '–'}</td>
      <td class="w-queues"><span class="row wrap">{worker.queues.map(queue => <a class="tag" key={queue} href={toQueue(queue)}>{queue}</a>)}{!takesJobs(worker) && <span class="faint">none; looks after HTTP workers</span>}</span></td>
      <td class="num wide-only lo2 muted">{known(worker.live && worker.jobs_per_second, rate)}</td>
      <td class={`num w-beat${worker.live ? '' : ' bad'}`} data-k="seen"><Ago at={worker.heartbeat_at} /></td>
      <td class="num wide-only muted">{worker.live ? <Ago at={worker.started_at} word="" /> : span(Date.parse(worker.heartbeat_at) - Date.parse(worker.started_at))}</td>
      <td class="num wide-only lo muted">{known(worker.live && worker.memory_bytes, bytes)}</td>
    </tr>
  );
}

/** What there is for a worker now, else what comes. */
function waits({ available, scheduled, retryable }: QueueStats): string {
  return available ? `${plural(available, 'job')} ${available === 1 ? 'waits' : 'wait'}` : `${plural(scheduled + retryable, 'job')} later`;
}

/** Queues whose jobs wait for workers that are not there. */
function Waiting({ title, text, queues, waits }: { title: string; text: string; queues: QueueStats[]; waits(queue: QueueStats): ComponentChildren }) {
  if (!queues.length) return null;
  return (
    <Panel title={title} ruled>
      <div class="body padded"><p class="muted">{text}; they are neither lost nor failed.</p>
        <ul class="sum gap">{queues.map(queue => <li key={queue.name}><a class="strong" href={toQueue(queue.name)}>{queue.name}</a><b>{waits(queue)}</b></li>)}</ul>
      </div>
    </Panel>
  );
}

function unserved({ queues, workers }: Overview): QueueStats[] {
  const served = new Set(workers.filter(worker => worker.live && !worker.draining).flatMap(worker => worker.queues));
  return queues.filter(queue => !served.has(queue.name) && (queue.available > 0 || queue.scheduled > 0 || queue.retryable > 0));
}

export function Workers() {
  const { data, problem } = useOverview();
  const [draining, setDraining] = useState<WorkerRecord>();
  const overview = data.value;
  if (!overview) return problem.value ? <Failed what="The workers cannot be read" problem={problem.value} /> : <Loading what="the workers" />;
  const { workers, totals } = overview;
  const alive = workers.filter(isAtWork), gone = workers.filter(worker => takesJobs(worker) && !worker.live).length;
  const sorted = [...workers].sort((a, b) => +b.live - +a.live || a.name.localeCompare(b.name));
  const queues = new Set(alive.flatMap(worker => worker.queues)).size;
  return (
    <>
      <h1 class="vh">Workers</h1>
      {problem.value && <Stale since={overview.at} problem={problem.value} />}
      <Stats>
        <Stat label="Live" value={count(alive.length)} unit={alive.length === 1 ? 'worker' : 'workers'} hint={gone ? `${gone} gone lately` : 'none is gone'} />
        <Stat label="Queues served" value={count(queues)} unit={`/ ${count(overview.queue_count)}`} hint={<a href={to(['queues'])}>all queues</a>} />
        <Stat label="Running" value={count(totals.running)} unit={jobs(totals.running)} href={to(['jobs'], { state: 'running' })} hint={alive.length ? `${(totals.running / alive.length).toFixed(1)} a worker` : 'nobody runs them'} />
      </Stats>
      <Panel title="Workers" note={`${alive.length} live${gone ? `, ${gone} gone` : ''}${overview.more_workers ? `, of the first ${count(workers.length)}: not all are listed` : ''}`}>
        {workers.length ? (
          <table class="grid cards cards-workers" data-list>
            <thead><tr>{HEADS.map(([name, as]) => <th scope="col" class={as}>{name}</th>)}</tr></thead>
            <tbody>{sorted.map((worker, i) => <Row key={worker.id} worker={worker} at={row.value === i} drain={() => setDraining(worker)} />)}</tbody>
          </table>
        ) : <Nothing title="No worker registered lately">Start one with <code>windlass work</code>, or run a worker of your program. Jobs wait meanwhile.</Nothing>}
        {gone > 0 && <div class="table-foot"><span><b class="strong">Gone</b>: it stopped, or its lease ended without a sign of life. Jobs that it held were made available again, without using up an attempt.</span></div>}
      </Panel>
      <Waiting title="Queues without a worker" text="Their jobs wait for a worker that has the queue" queues={unserved(overview)} waits={waits} />
      <Waiting title="Kinds that no worker knows" text="These jobs wait for a worker that has a handler" queues={overview.queues.filter(queue => queue.no_handler)}
        waits={queue => <>{plural(queue.no_handler, 'job')}{queue.oldest_no_handler_at && <>, for <Ago at={queue.oldest_no_handler_at} word="" /></>}</>} />
      {draining && <Drain worker={draining} close={() => setDraining(undefined)} />}
    </>
  );
}
