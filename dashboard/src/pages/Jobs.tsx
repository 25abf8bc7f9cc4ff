import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { query } from '../api/client';
import { useOverview } from '../api/live';
import { useResource } from '../api/resource';
import type { JobPage, JobState } from '../api/schema';
import { ended, offers, type Asked } from '../bulk';
import { forBulk, fromQuery, isEmpty, STATES, type Filter } from '../filter';
import { row, useKeys } from '../keys';
import { may } from '../session';
import { here, to } from '../router';
import { BulkBar, BulkDialog } from '../parts/Bulk';
import { EditMany } from '../parts/EditMany';
import { FilterBar, StateTabs, toJobs } from '../parts/Filter';
import { JobTable } from '../parts/JobTable';
import { Pages } from '../parts/Pages';
import { Failed, Loading, Nothing, Stale } from '../parts/States';

const PAGE = 50;
const EVERY_MS = 5_000;
const ORDER: Partial<Record<JobState, string>> = { running: 'longest held first', available: 'newest first', retryable: 'next due first', scheduled: 'next due first', completed: 'last claimed first', cancelled: 'last ended first', discarded: 'last ended first' };

function Empty({ page, filter, after }: { page: JobPage; filter: Filter; after: string | null }) {
  if (page.next !== null) {
    return <Nothing title="None among the jobs that were looked at">One look goes through a bounded number of jobs; there are more behind these. <a class="strong" href={toJobs(filter, page.next)}>Look further</a></Nothing>;
  }
  if (after !== null) return <Nothing title="Nothing follows"><a class="strong" href={toJobs(filter)}>To the first page</a></Nothing>;
  if (isEmpty(filter)) return <Nothing title="No job is here">Jobs show up as soon as they are enqueued, and until their retention is over.</Nothing>;
  return <Nothing title="No job matches">Nothing that is kept is like this{filter.state ? ` and ${filter.state}` : ''}. <a class="strong" href={to(['jobs'])}>All jobs</a></Nothing>;
}

export function Jobs() {
  const values = here.value.query;
  const key = values.toString();
  const filter = useMemo(() => fromQuery(values), [key]);
  const after = values.get('after');
  const wrong = values.get('state') !== null && !filter.state ? values.get('state') : null;
  const actions = may('operator') ? offers(filter.state) : [];
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const [asked, setAsked] = useState<Asked>();
  const totals = useOverview().data.value;
  // Rows do not move under somebody who is choosing among them.
  const still = selected.size > 0 || isAll || asked !== undefined || after !== null;
  const { data, problem, reload } = useResource<JobPage>(query('jobs', { ...filter, after, limit: PAGE }), still ? undefined : EVERY_MS);

  const none = (): void => {
    select(new Set());
    setAll(false);
  };
  useLayoutEffect(() => {
    none();
    row.value = -1;
  }, [key]);
  const over = ended.value, first = useRef(over);
  useEffect(() => {
    if (over !== first.current) reload();
  }, [over, reload]);

  const ask = (action: Asked['action']): void => {
    if (!actions.includes(action) || !(isAll || selected.size)) return;
    setAsked({ action, target: isAll ? { filter: forBulk(filter) } : { ids: [...selected] } });
  };
  useKeys({ r: () => ask('retry'), c: () => ask('cancel') });
  const choose = (ids: ReadonlySet<string>): void => {
    select(ids);
    setAll(false);
  };
  const suggestions = useMemo(() => (totals?.queues ?? []).map(queue => `queue:${queue.name}`), [totals?.queues.map(queue => queue.name).join(' ')]);
  const shown = isAll && data ? new Set(data.items.map(job => job.id)) : selected;
  return (
    <>
      <h1 class="vh">Jobs{filter.state && ` that are ${filter.state}`}</h1>
      <section class="panel" aria-label="Jobs">
        <StateTabs filter={filter} totals={totals?.totals} />
        <FilterBar filter={filter} suggestions={suggestions} />
        {wrong !== null && <p class="stale" role="alert"><span class="dot warn" /><span><code>{wrong}</code> is no state, so jobs of all states are listed; use one of {STATES.join(', ')}.</span></p>}
        {problem && data && <Stale problem={problem} />}
        {!data ? (problem ? <Failed what="The jobs cannot be listed" problem={problem} again={reload} /> : <Loading what="jobs" />) : (
          <>
            {data.items.length ? <JobTable jobs={data.items} state={filter.state} selected={actions.length ? shown : undefined} select={choose} /> : <Empty page={data} filter={filter} after={after} />}
            {data.items.length > 0 && !data.complete && data.next !== null && <p class="stale"><span class="dot warn" /><span>Not all jobs were looked at: a part, up to the bound of one look. There may be more behind these.</span></p>}
            {(data.items.length > 0 || after !== null) && (
              <Pages at={toJobs(filter, after)} first={toJobs(filter)} next={data.next === null ? undefined : toJobs(filter, data.next)} more={data.complete ? 'Older' : 'Look further'}>
                <span class="wide-only">{PAGE} a page, {(filter.state && ORDER[filter.state]) ?? 'state by state'}</span>
              </Pages>
            )}
          </>
        )}
      </section>
      {(selected.size > 0 || isAll) && <BulkBar selected={selected.size} actions={actions} isAll={isAll} all={isEmpty(filter) ? undefined : () => setAll(true)} ask={ask} clear={none} />}
      {asked?.action === 'edit' && !asked.edit ? <EditMany state={filter.state} close={() => setAsked(undefined)} preview={edit => setAsked({ ...asked, edit })} />
        : asked && <BulkDialog asked={asked} close={() => setAsked(undefined)} started={() => { setAsked(undefined); none(); reload(); }} />}
    </>
  );
}
