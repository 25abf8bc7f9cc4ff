// What ended per second, by the counters, and the backlog since the page was opened.

import { useState } from 'preact/hooks';
import type { History, Mark, Page } from '../api/schema';
import { useResource } from '../api/resource';
import type { Series } from '../charts';
import { now } from '../clock';
import { count, span } from '../format';
import { grid, historyEvery, historyPath, isCompleted, isFailed, marksPath, RANGES, type Range } from '../history';
import { samples } from '../samples';
import { Chart, Key } from './Chart';
import { Panel, Seg } from './Panel';
import { Failed, Loading, Stale } from './States';

export function Throughput({ queue }: { queue?: string }) {
  const [range, setRange] = useState<Range>('1h');
  const { data, problem, reload } = useResource<History>(historyPath(range, { by: 'none', queue }), historyEvery(range));
  const marks = useResource<Page<Mark>>(marksPath(range), historyEvery('24h')).data?.items;
  const steps = data && grid(data, range, now.value);
  const completed: Series | undefined = steps && { name: 'completed', values: steps.rates(isCompleted), kind: 'area', tone: 'completed' };
  const failed: Series | undefined = steps && { name: 'failed', values: steps.rates(isFailed), kind: 'bars', tone: 'discarded' };
  const times = steps?.times ?? [];
  return (
    <Panel title="Throughput" legend={completed && failed && <><Key series={completed} unit=" /s" /><Key series={failed} unit=" /s" /></>}
      tools={<Seg<Range> label="How far back" of={RANGES} chosen={range} choose={setRange} />}>
      {data && completed && failed ? <>
        <Chart label="Jobs completed per second" series={[completed]} times={times} unit=" /s" least={0.1} marks={marks} />
        <div class="strip"><h3>Failed attempts <span class="faint">per second</span></h3></div>
        <Chart label="Failed attempts per second" series={[failed]} times={times} unit=" /s" size="tiny" least={0.1} />
        {problem && <Stale since={data.counted_until} problem={problem} />}
      </> : problem ? <Failed what="The counters cannot be read" problem={problem} again={reload} /> : <Loading what="the counters" />}
    </Panel>
  );
}

export function Backlog({ queue, quick }: { queue?: string; quick?: [label: string, value: string][] }) {
  const taken = samples.value.map(sample => ({ at: sample.at, ...(queue === undefined ? sample : sample.queues.get(queue) ?? { available: 0, running: 0 }) }));
  const first = taken[0], last = taken.at(-1);
  const available: Series = { name: 'available', values: taken.map(sample => sample.available), kind: 'area', tone: 'available' };
  const running: Series = { name: 'running', values: taken.map(sample => sample.running), kind: 'line', tone: 'running' };
  return (
    <Panel title="Backlog" fill legend={<><Key series={available} value={false} /><Key series={running} value={false} /></>}
      note={first && last && taken.length > 1 ? `last ${span(last.at - first.at)}` : undefined}>
      {taken.length > 1 ? <Chart label="Jobs available and running since this page was opened" series={[available, running]} times={taken.map(sample => sample.at)} least={4} />
        : <p class="state grow">The backlog is drawn from when this page is opened; the first line comes in a moment.</p>}
      {quick && <dl class="quick">{quick.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}</dl>}
      {!quick && last && <p class="vh">{count(last.available)} available now</p>}
    </Panel>
  );
}
