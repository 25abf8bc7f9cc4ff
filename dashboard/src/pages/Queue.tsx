import { useState } from 'preact/hooks';
import { useOverview, useTopic } from '../api/live';
import type { History, QueueDetail, QueueStats, WorkerRecord } from '../api/schema';
import { newest } from '../charts';
import { count, figure, jobs, percent, perTime, plural, rate } from '../format';
import { failing, isEnd, shares, type Grid } from '../history';
import { may } from '../session';
import { to } from '../router';
import { Spark } from '../parts/Chart';
import { EditLimits } from '../parts/EditLimits';
import { Icon } from '../parts/Icon';
import { KeyLimits } from '../parts/KeyLimits';
import { Panel } from '../parts/Panel';
import { Jobs, PauseButton, Slots, tags } from '../parts/QueueTable';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Stat, Stats } from '../parts/Stats';
import { Backlog, Throughput } from '../parts/Throughput';
import { Ago } from '../parts/Time';
import { Causes, Times } from '../parts/Times';
import { useHour } from './Overview';

function Strip({ queue, history, steps }: { queue: QueueStats; history: History | undefined; steps: Grid | undefined }) {
  const share = history && failing(shares(history, () => null).get(null));
  const ended = steps ? newest(steps.rates(isEnd)) : null;
  const counted = (state: 'available' | 'running' | 'retryable' | 'discarded') => ({ value: figure(queue[state], queue.estimates.includes(state)), unit: jobs(queue[state]), href: to(['jobs'], { state, queue: queue.name }) });
  return (
    <Stats>
      <Stat label="Available" {...counted('available')} hint={queue.no_handler ? `${count(queue.no_handler)} of kinds that no worker knows` : queue.oldest_available_at ? <>oldest waits <Ago at={queue.oldest_available_at} word="" /></> : 'nothing waits'} />
      <Stat label="Running" {...counted('running')} unit={queue.limits.concurrency === undefined ? jobs(queue.running) : `/ ${count(queue.limits.concurrency)}`} hint={queue.limits.concurrency === undefined ? 'no limit' : queue.running >= queue.limits.concurrency ? 'as many as may' : 'at once, at most'} />
      <Stat label={queue.rate ? 'Started' : 'Ended'} value={queue.rate ? rate(queue.rate.claimed) : ended === null ? '–' : rate(ended)} unit="jobs/s" hint={queue.rate && ended !== null ? `ended ${rate(ended)} /s` : 'by the counters'} />
      <Stat label="Failed, 1 h" value={share === null || share === undefined ? '–' : percent(share).replace(' %', '')} unit={share ? '% of attempts' : ''} hint={share === 0 ? 'no attempt failed' : 'by the counters'} />
      <Stat label="Retrying" {...counted('retryable')} hint={<>{figure(queue.scheduled, queue.estimates.includes('scheduled'))} scheduled</>} />
      <Stat label="Dead" {...counted('discarded')} hint={<>{figure(queue.cancelled, queue.estimates.includes('cancelled'))} cancelled</>} />
    </Stats>
  );
}

function Kinds({ queue, history, steps }: { queue: string; history: History | undefined; steps: Grid | undefined }) {
  const kinds = history ? [...shares(history, each => each.kind)].sort(([, a], [, b]) => b.completed + b.failed - a.completed - a.failed) : [];
  return (
    <Panel title="Kinds" note="what ended within the last hour">
      {!history || !steps ? <Loading what="the counters" /> : kinds.length ? (
        <table class="grid"><thead><tr><th scope="col">Kind</th><th scope="col" class="wide-only"><span class="vh">Last hour</span></th><th scope="col" class="num">Completed</th><th scope="col" class="num">Failed</th></tr></thead><tbody>
          {kinds.map(([kind, share]) => {
            const failed = failing(share) ?? 0;
            return (
              <tr key={kind}>
                <td class="name clip all">{kind === null ? <span class="muted">not told apart</span> : <a href={to(['jobs'], { queue, kind })}>{kind}</a>}</td>
                <td class="wide-only"><Spark values={steps.rates(each => isEnd(each) && each.kind === kind)} tone="running" /></td>
                <td class="num">{count(share.completed)}</td>
                <td class={`num${failed > 0.01 ? ' bad strong' : ''}`}>{share.failed ? <>{count(share.failed)} <span class="small">({percent(failed)})</span></> : <span class="faint">0</span>}</td>
              </tr>
            );
          })}
        </tbody></table>
      ) : <Nothing title="No job of this queue ended within the last hour" />}
    </Panel>
  );
}

function Limits({ queue, edit }: { queue: QueueStats; edit(): void }) {
  const { concurrency, rate: limit } = queue.limits;
  return (
    <Panel title="Limits" ruled tools={may('admin') && <button class="btn quiet" type="button" onClick={edit}>Edit…</button>}>
      <dl class="facts pad">
        <dt>At once</dt><dd>{concurrency === undefined ? 'no limit' : <span class="slots"><Slots busy={queue.running} of={concurrency} /><span class="tab">{count(queue.running)} <span class="faint">/ {count(concurrency)}</span></span></span>}</dd>
        <dt>Starts</dt><dd>{limit ? perTime(limit.count, limit.period_ms) : 'no limit'}</dd>
        {limit?.burst && <><dt>In a burst</dt><dd>{count(limit.burst)}</dd></>}
      </dl>
    </Panel>
  );
}

function Serving({ workers }: { workers: readonly WorkerRecord[] }) {
  return (
    <Panel title="Workers" ruled note={workers.length || undefined}>
      {workers.length ? <ul class="notes first">
        {workers.map(worker => <li key={worker.id}><span class={`dot ${worker.live ? 'ok' : 'bad'}`} /><a class="strong clip" href={to(['workers'])}>{worker.name}</a><span class="when">{worker.live ? 'live, ' : 'gone, '}<Ago at={worker.heartbeat_at} /></span></li>)}
      </ul> : <Nothing title="No worker takes these jobs">They wait until one does.</Nothing>}
    </Panel>
  );
}

export function Queue({ name }: { name: string }) {
  const { data, problem } = useTopic<QueueDetail>(`queue:${name}`);
  const overview = useOverview().data.value;
  const { history, steps } = useHour(name);
  const [editing, setEditing] = useState(false);
  const queue = data.value;
  if (!queue) {
    if (problem.value?.status === 404) return <Nothing title={`There is no queue ${name}`}>A queue is there as soon as its first job is enqueued. <a class="strong" href={to(['queues'])}>All queues</a></Nothing>;
    return problem.value ? <Failed what={`Queue ${name} cannot be read`} problem={problem.value} /> : <Loading what={`queue ${name}`} />;
  }
  const workers = queue.workers ?? (overview?.workers ?? []).filter(worker => worker.queues.includes(name));
  const alive = workers.filter(worker => worker.live).length;
  return (
    <>
      {problem.value && <Stale problem={problem.value} />}
      <div class="job-head">
        <div><h1>{name} {tags(queue, workers)}</h1><div class="meta"><span>{plural(alive, 'live worker')}</span><span><Jobs of={queue} state="completed" /> completed and kept</span></div></div>
        <div class="tools"><a class="btn" href={to(['jobs'], { queue: name })}><Icon name="jobs" />Jobs</a><PauseButton queue={queue} text /></div>
      </div>
      <Strip queue={queue} history={history} steps={steps} />
      <div class="cols two-one"><Throughput queue={name} /><Backlog queue={name} /></div>
      <div class="cols three-one">
        <div class="stack"><Times queue={name} /><Kinds queue={name} history={history} steps={steps} /><Causes queue={name} /><Serving workers={workers} /></div>
        <div class="stack"><Limits queue={queue} edit={() => setEditing(true)} /><KeyLimits key={name} queue={name} /></div>
      </div>
      {editing && <EditLimits queue={queue} close={() => setEditing(false)} />}
    </>
  );
}
