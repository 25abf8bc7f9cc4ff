// "Needs a look": what a person should see first. A calm page is an empty list.

import { plural, span } from '../format';
import { now } from '../clock';
import { to, toQueue } from '../router';
import type { Look as Item } from '../api/schema';
import { Ago } from './Time';
import { Panel } from './Panel';

interface Note {
  dot: 'bad' | 'warn' | '';
  title: string;
  text: string;
  href: string;
}

const jobs = (n: number | undefined, verb = 'wait'): string => (n === undefined ? 'Jobs wait' : `${plural(n, 'job')} ${n === 1 ? `${verb}s` : verb}`);

function note(item: Item): Note {
  const { what, schedule = '?', count, since } = item;
  const queue = item.queue ?? '?';
  const long = since ? ` for ${span(now.value - Date.parse(since))}` : '';
  switch (what) {
    case 'no_worker':
      return { dot: 'bad', title: `No worker takes jobs of ${queue}`, text: `${jobs(count)}. Start one with: windlass work, or a worker of your program that has this queue.`, href: toQueue(queue) };
    case 'paused':
      return { dot: '', title: `Queue ${queue} is paused`, text: `${jobs(count)} until somebody resumes it.`, href: toQueue(queue) };
    case 'discarded':
      return { dot: 'bad', title: `${plural(count ?? 0, 'job')} discarded${item.queue ? ` in ${queue}` : ''}`, text: 'Given up after their last attempt. They can be tried again.', href: to(['jobs'], { state: 'discarded', queue: item.queue }) };
    case 'worker_died':
      return { dot: 'warn', title: `A worker died${item.queue ? `, with jobs of ${queue}` : ''}`, text: `${plural(count ?? 0, 'job')} available again; no attempt was used up.`, href: to(['workers']) };
    case 'schedule_error':
      return { dot: 'bad', title: `Schedule ${schedule} never fires`, text: 'Something is wrong with its definition.', href: to(['schedules'], { name: schedule }) };
    case 'old':
      return { dot: 'warn', title: `Jobs of ${queue} wait${long || ' long'}`, text: `${jobs(count)} to be claimed.`, href: toQueue(queue) };
    default:
      return { dot: 'bad', title: `No worker of ${queue} knows the kind of ${plural(count ?? 0, 'job')}`, text: `The first waits${long || ' long'}. Start a worker that has a handler for them.`, href: to(['jobs'], { state: 'available', queue }) };
  }
}

export function Look({ items }: { items: readonly Item[] }) {
  return (
    <Panel title="Needs a look" note={items.length || undefined}>
      {items.length ? (
        <ul class="notes">
          {items.map(item => {
            const { dot, title, text, href } = note(item);
            return <li key={`${item.what} ${item.queue} ${item.schedule}`}><span class={`dot ${dot}`} /><a class="strong" href={href}>{title}</a><span class="when">{item.since && <Ago at={item.since} word="" />}</span><p>{text}</p></li>;
          })}
        </ul>
      ) : <p class="state calm"><span class="dot ok" />Nothing does. Every queue has a worker, nothing waits long.</p>}
    </Panel>
  );
}
