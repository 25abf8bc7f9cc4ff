// How long jobs wait and run, as the workers measure it, and why attempts fail.

import { useState } from 'preact/hooks';
import { query } from '../api/client';
import { useResource } from '../api/resource';
import type { FailureGroup, Page, Timings } from '../api/schema';
import type { Series } from '../charts';
import { now } from '../clock';
import { count } from '../format';
import { historyEvery, lasted, RANGES, timingsPath, type Range } from '../history';
import { toJob } from '../router';
import { Chart, Key } from './Chart';
import { Panel, Seg } from './Panel';
import { Failed, Loading, Stale } from './States';
import { Ago } from './Time';

export function Times({ queue }: { queue?: string }) {
  const [range, setRange] = useState<Range>('1h');
  const { data, problem, reload } = useResource<Timings>(timingsPath(range, queue), historyEvery(range));
  const found = data && lasted(data, range, now.value);
  const series: Series[] = found ? [{ name: 'run', values: found.run, kind: 'line', tone: 'running' }, { name: 'wait', values: found.wait, kind: 'line', tone: 'available' }] : [];
  return (
    <Panel title="Wait and run" note="95 of 100 take no longer" legend={series.map(one => <Key key={one.name} series={one} unit=" s" />)}
      tools={<Seg<Range> label="How far back, of wait and run" of={RANGES} chosen={range} choose={setRange} />}>
      {found && data ? <>
        {data.timed.length ? <Chart label="How long jobs waited and ran, in seconds" series={series} times={found.times} unit=" s" size="short" least={0.001} />
          : <p class="state calm">No job was measured in that time. Workers tell every ten seconds.</p>}
        {problem && <Stale problem={problem} />}
      </> : problem ? <Failed what="The timings cannot be read" problem={problem} again={reload} /> : <Loading what="the timings" />}
    </Panel>
  );
}

const MOST = 8;

export function Causes({ queue }: { queue?: string }) {
  const { data } = useResource<Page<FailureGroup> & { total: number }>(query('failures', { last_s: 86_400, limit: MOST, queue }), 30_000);
  if (!data) return null;
  return (
    <Panel title="Why attempts failed" note={data.total > MOST ? `the ${MOST} most frequent of ${count(data.total)} causes, 24 h` : 'last 24 h'}>
      {data.items.length ? (
        <table class="grid tight"><thead class="vh"><tr><th scope="col">Error</th><th scope="col">Last</th><th scope="col">Attempts</th></tr></thead><tbody>
          {data.items.map(({ fingerprint, queue: of, kind, sample, last_job: job, last_at: at, count: n }) => (
            <tr key={`${fingerprint} ${of} ${kind}`}>
              <td class="clip all"><a class="name" href={toJob(job)} title={sample ?? undefined}>{sample ?? 'the text is gone'}</a><br /><span class="sub">{kind ?? 'kinds not told apart'}{queue === undefined && of !== null && ` in ${of}`}</span></td>
              <td class="num faint wide-only"><Ago at={at} /></td>
              <td class="num strong">{count(n)}</td>
            </tr>
          ))}
        </tbody></table>
      ) : <p class="state calm"><span class="dot ok" />No attempt failed within the last day.</p>}
    </Panel>
  );
}
