// Limits of the keys of a queue: what holds for each of them, and the keys that have limits of their own, page by page.

import { useRef, useState } from 'preact/hooks';
import { path, query } from '../api/client';
import { useResource } from '../api/resource';
import type { KeyLimit, KeyLimitPage } from '../api/schema';
import { count, perTime } from '../format';
import { may } from '../session';
import { EditKeyLimit, RemoveKeyLimit } from './EditKeyLimit';
import { Icon } from './Icon';
import { Panel } from './Panel';
import { Failed, Loading, Nothing, Stale } from './States';

const PAGE = 20;
const EVERY_MS = 10_000;

const words = ({ serial, concurrency: most, rate, weight }: KeyLimit): string =>
  [serial ? 'one after the other' : most ? `${count(most)} at once` : !rate && 'no limit', rate && perTime(rate.count, rate.period_ms), weight !== 1 && `weight ${weight}`]
    .filter(Boolean).join(', ');

interface Asked {
  verb: 'edit' | 'remove';
  of: string | null;
  limit: KeyLimit | null;
}

function Row({ of, limit, ask }: { of: string | null; limit: KeyLimit; ask(asked: Asked): void }) {
  const name = of === null ? 'of each key' : `of key ${of}`;
  return (
    <li>
      <span class="grow"><span class={of === null ? 'strong' : 'strong mono'}>{of ?? 'Each key'}</span><span class="muted small">{words(limit)}</span></span>
      {may('admin') && <>
        <button class="btn quiet" type="button" aria-label={`Edit the limits ${name}`} onClick={() => ask({ verb: 'edit', of, limit })}>Edit…</button>
        <button class="btn quiet only" type="button" aria-label={of === null ? 'Remove all limits of keys' : `Remove the limits ${name}`} title="Remove…" onClick={() => ask({ verb: 'remove', of, limit })}><Icon name="x" /></button>
      </>}
    </li>
  );
}

export function KeyLimits({ queue }: { queue: string }) {
  const [search, setSearch] = useState('');
  const [after, setAfter] = useState<string | null>(null);
  const [asked, ask] = useState<Asked>();
  const { data, problem, reload } = useResource<KeyLimitPage>(query(path('queues', queue, 'key-limits'), { search, after, limit: PAGE }), EVERY_MS);
  const many = useRef(false); // once there was more than a page, the field to search stays
  many.current ||= !!data?.next;
  const find = (part: string): void => {
    setSearch(part);
    setAfter(null);
  };
  const dialog = asked && { queue, of: asked.of, limit: asked.limit, close: () => ask(undefined), reload };
  return (
    <Panel title="Limits of keys" ruled tools={may('admin') && <button class="btn quiet" type="button" onClick={() => ask({ verb: 'edit', of: '', limit: null })}>Add a key…</button>}>
      {many.current && <form class="filter" role="search" onSubmit={event => event.preventDefault()}>
        <input class="field" type="search" aria-label="Part of a key" placeholder="Part of a key" value={search} onInput={event => find(event.currentTarget.value)} />
      </form>}
      {problem && data && <Stale problem={problem} />}
      {!data ? problem ? <Failed what="The limits of keys cannot be read" problem={problem} again={reload} /> : <Loading what="the limits of keys" />
        : data.default === null ? <div class="state">
            <p>Its jobs run in the order of their arrival, whatever their keys.</p>
            {may('admin') && <button class="btn" type="button" onClick={() => ask({ verb: 'edit', of: null, limit: null })}>Limit each key…</button>}
          </div>
          : <ul class="key-limits">
            <Row of={null} limit={data.default} ask={ask} />
            {data.items.map(({ key, limit }) => <Row key={key} of={key} limit={limit} ask={ask} />)}
          </ul>}
      {data && !data.items.length && (search || after !== null) && <Nothing title={search ? 'No key with limits of its own has this in it' : 'Nothing follows'} />}
      {(after !== null || data?.next) && <div class="table-foot"><span class="tools">
        {after !== null && <button class="btn" type="button" onClick={() => setAfter(null)}><Icon name="left" />First page</button>}
        {data?.next && <button class="btn" type="button" onClick={() => setAfter(data.next)}>More<Icon name="right" /></button>}
      </span></div>}
      {dialog && (asked.verb === 'edit' ? <EditKeyLimit {...dialog} /> : <RemoveKeyLimit {...dialog} />)}
    </Panel>
  );
}
