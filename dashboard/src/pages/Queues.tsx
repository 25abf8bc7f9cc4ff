import { useOverview } from '../api/live';
import { Panel } from '../parts/Panel';
import { QueueTable } from '../parts/QueueTable';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { flowOf, useHour } from './Overview';

export function Queues() {
  const { data, problem } = useOverview();
  const { history, steps } = useHour();
  const overview = data.value;
  if (!overview) return problem.value ? <Failed what="The queues cannot be read" problem={problem.value} /> : <Loading what="the queues" />;
  return (
    <>
      <h1 class="vh">Queues</h1>
      {problem.value && <Stale since={overview.at} problem={problem.value} />}
      <Panel title="Queues" note={overview.queues.length}>
        {overview.queues.length ? <QueueTable queues={overview.queues} workers={overview.workers} flow={flowOf(history, steps)} />
          : <Nothing title="No queue yet">A queue is there as soon as the first job is enqueued.</Nothing>}
      </Panel>
    </>
  );
}
