import { query } from '../api/client';
import { useResource } from '../api/resource';
import type { AuditEntry, Page } from '../api/schema';
import { asText } from '../filter';
import { plural } from '../format';
import { row } from '../keys';
import { here, to } from '../router';
import { sees } from '../session';
import { Pages } from '../parts/Pages';
import { Panel } from '../parts/Panel';
import { Failed, Loading, Nothing, Stale } from '../parts/States';
import { Moment } from '../parts/Time';

const PAGE = 50;

function details({ filter, reason, count: n }: AuditEntry): string {
  const text = typeof filter === 'string' ? filter : filter ? asText(filter) : '';
  return [text, n !== null && n !== undefined && plural(n, 'job'), reason && `“${reason}”`].filter(Boolean).join('; ');
}

/** What was changed, as the path of the call; a link where there is a page of it. */
function Target({ of }: { of: string | null }) {
  const page = of === null ? null : /^\/(jobs|queues)\/([^/]+)/.exec(of);
  return page?.[1] && page[2] ? <a href={`${page[1]}/${page[2]}`}>{of}</a> : <>{of ?? '–'}</>;
}

function Row({ entry, at }: { entry: AuditEntry; at: boolean }) {
  return (
    <tr class={at ? 'at' : undefined}>
      <td class="tab muted a-when"><Moment at={entry.at} /></td>
      <td class="name a-who">{entry.actor}</td>
      <td class="muted wide-only">{entry.role ? `${entry.role}, ${entry.via}` : entry.via}</td>
      <td class="a-what"><code>{entry.action}</code></td>
      <td class="a-on clip"><Target of={entry.target} /></td>
      <td class="muted a-more">{details(entry)}</td>
      <td class="a-say" title={entry.request_id ? `request ${entry.request_id}` : undefined}><span class="row"><span class={`dot ${entry.outcome === 'done' ? 'ok' : 'bad'}`} />{entry.outcome}</span></td>
    </tr>
  );
}

export function Audit() {
  const before = here.value.query.get('before');
  const { data, problem, reload } = useResource<Page<AuditEntry>>(sees('admin') ? query('audit', { before, limit: PAGE }) : null);
  if (!sees('admin')) return <Nothing title="The audit log is for admins">Your role does not see it.</Nothing>;
  if (!data) return problem ? <Failed what="The audit log cannot be read" problem={problem} again={reload} /> : <Loading what="the audit log" />;
  return (
    <>
      <h1 class="vh">Audit log</h1>
      {problem && <Stale problem={problem} />}
      <Panel title="Audit log" note="append only; refusals are in it">
        {data.items.length ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="Entries"><table class="grid cards cards-audit" data-list>
            <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">As</th><th scope="col">Action</th><th scope="col">On</th><th scope="col">Details</th><th scope="col">Answer</th></tr></thead>
            <tbody>{data.items.map((entry, i) => <Row key={entry.id} entry={entry} at={row.value === i} />)}</tbody>
          </table></div>
        ) : <Nothing title={before ? 'Nothing follows' : 'Nobody has changed anything yet'} />}
        <Pages at={to(['audit'], { before })} first={to(['audit'])} next={data.next ? to(['audit'], { before: data.next }) : undefined} more="Older" />
      </Panel>
    </>
  );
}
