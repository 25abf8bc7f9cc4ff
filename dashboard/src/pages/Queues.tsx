import { query } from '../api/client';
import { useOverview } from '../api/live';
import { useResource } from '../api/resource';
import type { Overview, Page, QueueStats } from '../api/schema';
import { count } from '../format';
import { go, here, to } from '../router';
import { Pages } from '../parts/Pages';
import { Panel } from '../parts/Panel';
import { QueueTable } from '../parts/QueueTable';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { flowOf, useHour } from './Overview';

const PAGE = 100;
const EVERY_MS = 10_000;

/** Where there are more queues than the overview has: those with something in their name, page by page. */
function Found({ overview, flow, search, after }: { overview: Overview; flow: ReturnType<typeof flowOf>; search: string; after: string | null }) {
  const at = (after: string | number | null): string => to(['queues'], { search, after, by: 'name' });
  const { data, problem, reload } = useResource<Page<QueueStats>>(query('queues', { search, after, limit: PAGE }), EVERY_MS);
  if (!data) return problem ? <Failed what="The queues cannot be read" problem={problem} again={reload} /> : <Loading what="the queues" />;
  return (
    <>
      {problem && <Stale problem={problem} />}
      {data.items.length ? <QueueTable queues={data.items} workers={overview.workers} flow={flow} />
        : <Nothing title={after === null ? 'No queue has this in its name' : 'Nothing follows'} />}
      <Pages at={at(after)} first={at(null)} next={data.next ? at(data.next) : undefined} />
    </>
  );
}

function Search({ search }: { search: string }) {
  return (
    <form role="search" onSubmit={event => event.preventDefault()}>
      <input class="field" type="search" aria-label="Part of a queue's name" placeholder="Part of a name" value={search}
        onInput={event => go(to(['queues'], { search: event.currentTarget.value }), true)} />
    </form>
  );
}

export function Queues() {
  const { data, problem } = useOverview();
  const { history, steps } = useHour();
  const { query: values } = here.value;
  const search = values.get('search'), after = values.get('after');
  const overview = data.value;
  if (!overview) return problem.value ? <Failed what="The queues cannot be read" problem={problem.value} /> : <Loading what="the queues" />;
  const { queues, queue_count: all } = overview;
  const flow = flowOf(history, steps);
  const few = all <= queues.length;
  const busiest = few || (!search && values.get('by') === null);
  const shown = few && search ? queues.filter(queue => queue.name.toLowerCase().includes(search.toLowerCase())) : queues;
  return (
    <>
      <h1 class="vh">Queues</h1>
      {problem.value && <Stale since={overview.at} problem={problem.value} />}
      <Panel title="Queues" note={few ? count(all) : busiest ? `the ${count(queues.length)} with the most to do, of ${count(all)}` : `by name, of ${count(all)}`}
        tools={<>{!few && (busiest ? <a class="btn" href={to(['queues'], { by: 'name' })}>All by name</a> : <a class="btn" href={to(['queues'])}>Busiest</a>)}<Search search={search ?? ''} /></>}>
        {!busiest ? <Found overview={overview} flow={flow} search={search ?? ''} after={after} />
          : shown.length ? <QueueTable queues={shown} workers={overview.workers} flow={flow} />
            : search ? <Nothing title="No queue has this in its name" />
              : <Nothing title="No queue yet">A queue is there as soon as the first job is enqueued.</Nothing>}
      </Panel>
    </>
  );
}
