import { useOverview } from '../api/live';
import { useResource } from '../api/resource';
import type { History, Overview as Data } from '../api/schema';
import { newest } from '../charts';
import { now } from '../clock';
import { count, figure, jobs, percent, plural, rate, short } from '../format';
import { failing, grid, historyEvery, historyPath, isCompleted, isEnd, isFailed, shares, total, type Grid } from '../history';
import { samples } from '../samples';
import { to, toQueue } from '../router';
import { isAtWork } from '../workers';
import { Spark } from '../parts/Chart';
import { Look } from '../parts/Look';
import { Panel } from '../parts/Panel';
import { QueueTable, type Flow } from '../parts/QueueTable';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Stat, Stats } from '../parts/Stats';
import { Backlog, Throughput } from '../parts/Throughput';
import { Ago } from '../parts/Time';
import { Causes, Times } from '../parts/Times';

const SPARK = 30;

/** The counters of the last hour, which several parts of a page draw. */
export function useHour(queue?: string): { history: History | undefined; steps: Grid | undefined } {
  const { data } = useResource<History>(historyPath('1h', { by: queue === undefined ? 'queue' : 'kind', queue }), historyEvery('1h'));
  return { history: data, steps: data && grid(data, '1h', now.value) };
}

export function flowOf(history: History | undefined, steps: Grid | undefined): ((queue: string) => Flow) | undefined {
  if (!history || !steps) return undefined;
  const byQueue = shares(history, each => each.queue);
  return queue => ({ ended: steps.rates(each => isEnd(each) && each.queue === queue).slice(-SPARK), share: byQueue.get(queue) });
}

function Strip({ data, history, steps }: { data: Data; history: History | undefined; steps: Grid | undefined }) {
  const { totals, queues, oldest } = data;
  const about = (state: 'available' | 'discarded', text = count): string => figure(totals[state], totals.estimates.includes(state), text);
  const claimed = queues.some(queue => queue.rate) ? queues.reduce((sum, queue) => sum + (queue.rate?.claimed ?? 0), 0) : null;
  const completed = steps?.rates(isCompleted), failed = steps?.rates(isFailed);
  const done = completed ? newest(completed) : null, lost = failed ? newest(failed) : null;
  const share = history && failing(shares(history, () => null).get(null));
  const alive = data.workers.filter(isAtWork).length;
  const backlog = samples.value.slice(-SPARK).map(sample => sample.available);
  return (
    <Stats>
      <Stat label="Throughput" value={claimed === null ? (done === null ? '–' : rate(done)) : rate(claimed)} unit="jobs/s"
        hint={claimed === null ? 'completed, by the counters' : done === null ? 'started' : `started; completed ${rate(done)} /s`} spark={completed && <Spark values={completed.slice(-SPARK)} tone="completed" />} />
      <Stat label="Backlog" value={about('available', totals.available > 999_999 ? short : count)} unit={jobs(totals.available)} href={to(['jobs'], { state: 'available' })}
        hint={oldest ? <>oldest <Ago at={oldest.since} word="" />, in <a href={toQueue(oldest.queue)}>{oldest.queue}</a></> : 'nothing waits'} spark={backlog.length > 1 && <Spark values={backlog} tone="available" />} />
      <Stat label="Running" value={count(totals.running)} unit={jobs(totals.running)} href={to(['jobs'], { state: 'running' })} hint={<a href={to(['workers'])}>{plural(alive, 'live worker')}</a>} />
      <Stat label="Later" value={figure(totals.scheduled, totals.estimates.includes('scheduled'), short)} unit="scheduled" href={to(['jobs'], { state: 'scheduled' })}
        hint={<a href={to(['jobs'], { state: 'retryable' })}>{figure(totals.retryable, totals.estimates.includes('retryable'))} wait for a retry</a>} />
      <Stat label="Failed, 1 h" value={share === null || share === undefined ? '–' : percent(share).replace(' %', '')} unit={share ? '% of attempts' : ''}
        hint={lost === null ? 'by the counters' : `${rate(lost)} /s now`} spark={failed && <Spark values={failed.slice(-SPARK)} tone="discarded" kind="bars" />} />
      <Stat label="Dead" value={about('discarded')} unit={jobs(totals.discarded)} href={to(['jobs'], { state: 'discarded' })} hint={<a href={to(['jobs'], { state: 'cancelled' })}>{figure(totals.cancelled, totals.estimates.includes('cancelled'))} cancelled</a>} />
    </Stats>
  );
}

const MOST_KINDS = 6;

function Failures() {
  const { data } = useResource<History>(historyPath('1h', { by: 'queue_and_kind', outcome: 'failed', top: MOST_KINDS }), historyEvery('1h'));
  if (!data) return null;
  const steps = grid(data, '1h', now.value);
  return (
    <Panel title="Failures by kind" note="attempts of the last hour">
      {data.series.length ? (
        <table class="grid tight"><thead class="vh"><tr><th scope="col">Kind</th><th scope="col">Last hour</th><th scope="col">Failed attempts</th></tr></thead><tbody>
          {data.series.map(each => {
            const { kind, queue } = each;
            return <tr key={`${kind} ${queue}`}>
              <td class="clip all"><a class="name" href={to(['jobs'], { state: 'retryable', kind, queue })}>{kind ?? 'kinds not told apart'}</a><br /><span class="sub">in {queue ?? 'several queues'}</span></td>
              <td class="spark-cell"><Spark values={steps.rates(one => one === each).slice(-SPARK)} tone="discarded" kind="bars" /></td>
              <td class="num strong">{count(total(each))}</td>
            </tr>;
          })}
        </tbody></table>
      ) : <p class="state calm"><span class="dot ok" />No attempt failed within the last hour.</p>}
    </Panel>
  );
}

export function Overview() {
  const { data, problem } = useOverview();
  const { history, steps } = useHour();
  const overview = data.value;
  if (!overview) return problem.value ? <Failed what="The overview cannot be read" problem={problem.value} /> : <Loading what="the queues" />;
  const { totals, queues, workers, queue_count: all, paused_count: paused } = overview;
  return (
    <>
      <h1 class="vh">Overview</h1>
      {problem.value && <Stale since={overview.at} problem={problem.value} />}
      <Strip data={overview} history={history} steps={steps} />
      <div class="cols two-one">
        <Throughput />
        <Backlog quick={(['available', 'running', 'scheduled', 'retryable'] as const).map(state => [state, figure(totals[state], totals.estimates.includes(state), short)])} />
      </div>
      <div class="cols three-one">
        <div class="stack">
          <Panel title="Queues" note={`${all > queues.length ? `the ${queues.length} with the most to do, of ` : ''}${count(all)}${paused ? `, ${paused} paused` : ''}`}>
            {queues.length ? <QueueTable queues={queues} workers={workers} flow={flowOf(history, steps)} />
              : <Nothing title="No queue yet">A queue is there as soon as the first job is enqueued: <code>windlass enqueue KIND ARGS</code>, or from your program.</Nothing>}
          </Panel>
          <Times />
          <Failures />
          <Causes />
        </div>
        <div class="stack first-on-phone"><Look items={overview.needs_a_look} /></div>
      </div>
    </>
  );
}
