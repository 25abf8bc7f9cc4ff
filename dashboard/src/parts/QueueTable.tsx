import { useState } from 'preact/hooks';
import { act, busy } from '../act';
import { path } from '../api/client';
import type { JobState, QueueStats, WorkerRecord } from '../api/schema';
import { newest, type Values } from '../charts';
import { count, figure, percent, rate } from '../format';
import { failing, type Share } from '../history';
import { may } from '../session';
import { to, toQueue } from '../router';
import { row } from '../keys';
import { Spark } from './Chart';
import { Icon } from './Icon';
import { Ago } from './Time';

/** What the counters say of one queue. */
export interface Flow {
  ended: Values;
  share: Share | undefined;
}

type Order = 'name' | 'available' | 'running' | 'ended';

interface QueueTableProps {
  queues: readonly QueueStats[];
  workers: readonly WorkerRecord[];
  flow: ((queue: string) => Flow) | undefined;
}

/** A count that leads to its jobs. */
export function Jobs({ of, state }: { of: QueueStats; state: JobState }) {
  const n = of[state];
  return n ? <a href={to(['jobs'], { state, queue: of.name })}>{figure(n, of.estimates.includes(state))}</a> : <span class="faint">0</span>;
}

export function Slots({ busy, of }: { busy: number; of: number | undefined }) {
  if (of === undefined) return null;
  return <progress class={busy >= of ? 'full' : ''} max={of} value={Math.min(busy, of)} aria-label={`${busy} of ${of} at once`} />;
}

export function tags(queue: QueueStats, workers: readonly WorkerRecord[]) {
  const served = workers.some(worker => worker.live && worker.queues.includes(queue.name));
  return (
    <>
      {queue.paused && <span class="tag"><Icon name="pause" small />paused</span>}
      {!served && queue.available > 0 && !queue.paused && <span class="tag bad">no worker</span>}
      {queue.limits.rate && <span class="tag wide-only">limited rate</span>}
    </>
  );
}

export function PauseButton({ queue, text }: { queue: QueueStats; text?: boolean }) {
  if (!may('operator')) return null;
  const verb = queue.paused ? 'Resume' : 'Pause';
  const done = queue.paused ? `Queue ${queue.name} takes jobs again` : `Queue ${queue.name} is paused; what runs is finished`;
  return (
    <button class={text ? 'btn' : 'btn quiet only'} type="button" disabled={busy.value} aria-label={`${verb} queue ${queue.name}`} title={`${verb} ${queue.name}`}
      onClick={() => void act('POST', `${path('queues', queue.name)}/${verb.toLowerCase()}`, done)}><Icon name={queue.paused ? 'play' : 'pause'} />{text && verb}</button>
  );
}

function Row({ queue, workers, flow, at }: { queue: QueueStats; workers: readonly WorkerRecord[]; flow: Flow | undefined; at: boolean }) {
  const failed = failing(flow?.share), ended = flow ? newest(flow.ended) : null;
  const started = queue.rate?.claimed;
  return (
    <tr class={at ? 'at' : undefined}>
      <td class="q-name"><span class="row"><span class={`dot ${queue.paused ? '' : queue.running ? 'busy' : ''}`} /><a class="name clip" href={toQueue(queue.name)}>{queue.name}</a>{tags(queue, workers)}</span></td>
      <td class="num q-avail" data-k="available"><Jobs of={queue} state="available" /></td>
      <td class="num q-slots"><span class="slots"><Slots busy={queue.running} of={queue.limits.concurrency} /><span class="tab"><Jobs of={queue} state="running" />{queue.limits.concurrency !== undefined && <span class="faint"> / {count(queue.limits.concurrency)}</span>}<span class="phone-only faint"> running</span></span></span></td>
      <td class="num q-rate">{started !== undefined || ended !== null ? <><b class="strong">{rate(started ?? ended ?? 0)}</b><span class="faint small"> /s</span></> : <span class="faint">–</span>}</td>
      <td class="q-spark lo2">{flow && <Spark values={flow.ended} tone={queue.paused ? 'enqueued' : 'running'} kind={queue.paused ? 'line' : 'area'} />}</td>
      <td class="num q-wait" data-k="oldest">{queue.oldest_available_at ? <Ago at={queue.oldest_available_at} word="" /> : <span class="faint">–</span>}</td>
      <td class={`num q-fail${failed !== null && failed > 0.01 ? ' bad strong' : ''}`} data-k="failed">{failed === null ? <span class="faint">–</span> : failed ? percent(failed) : <span class="faint">0</span>}</td>
      <td class="acts wide-only"><span class="act"><PauseButton queue={queue} /></span></td>
    </tr>
  );
}

export function QueueTable({ queues, workers, flow }: QueueTableProps) {
  const [order, setOrder] = useState<Order>('name');
  const flows = new Map(queues.map(queue => [queue.name, flow?.(queue.name)]));
  const value = (queue: QueueStats): number => (order === 'ended' ? queue.rate?.claimed ?? newest(flows.get(queue.name)?.ended ?? []) ?? 0 : order === 'name' ? 0 : queue[order]);
  const sorted = [...queues].sort((a, b) => value(b) - value(a) || a.name.localeCompare(b.name));
  const live = queues.some(queue => queue.rate);
  const head = (name: Order, text: string) => (
    <th scope="col" class={name === 'name' ? undefined : 'num'} aria-sort={order === name ? (name === 'name' ? 'ascending' : 'descending') : undefined}>
      <button class="sort" type="button" onClick={() => setOrder(name)}>{text}{order === name && <Icon name="down" />}</button>
    </th>
  );
  return (
    <table class="grid cards cards-queues" data-list>
      <thead><tr>
        {head('name', 'Queue')}{head('available', 'Available')}{head('running', 'Running')}{head('ended', live ? 'Started' : 'Ended')}
        <th scope="col" class="lo2"><span class="vh">Ended per second, last hour</span></th><th scope="col" class="num">Oldest waits</th><th scope="col" class="num" title="Of the attempts of the last hour">Failed, 1 h</th><th class="acts wide-only"><span class="vh">Actions</span></th>
      </tr></thead>
      <tbody>{sorted.map((queue, i) => <Row key={queue.name} queue={queue} workers={workers} flow={flows.get(queue.name)} at={row.value === i} />)}</tbody>
    </table>
  );
}
