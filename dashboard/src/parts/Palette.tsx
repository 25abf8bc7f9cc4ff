// Search and commands: every page, every queue, every job by its number, and what can be done from anywhere.

import { useMemo, useState } from 'preact/hooks';
import { another, logOut, loggedIn, may, sees } from '../session';
import { useOverview } from '../api/live';
import { path } from '../api/client';
import { act } from '../act';
import { STATES } from '../filter';
import { GOES, overlay, toggleLive } from '../keys';
import { go, to, toJob, toQueue } from '../router';
import { toggleTheme } from '../theme';
import { useModal } from './Dialog';
import { Icon, type IconName } from './Icon';
import type { QueueStats } from '../api/schema';

const GROUPS = ['Go to', 'Do', 'Search'] as const;

interface Hit {
  group: (typeof GROUPS)[number];
  icon: IconName;
  text: string;
  keys?: string[];
  run(): void;
}

const MOST = 40;
/** How many queues are named before anything is typed. */
const QUEUES = 5;

function pages(): Hit[] {
  return Object.entries(GOES).filter(([key]) => key !== 'a' || sees('admin'))
    .map(([key, [text, parts]]) => ({ group: 'Go to', icon: (parts[0] ?? 'overview') as IconName, text, keys: ['g', key], run: () => go(to(parts)) }));
}

function commands(queues: readonly QueueStats[]): Hit[] {
  const hits: Hit[] = [
    { group: 'Do', icon: 'theme', text: 'Switch between light and dark', keys: ['t'], run: () => void toggleTheme() },
    { group: 'Do', icon: 'pause', text: 'Pause or resume live updates', keys: ['.'], run: toggleLive },
    { group: 'Do', icon: 'more', text: 'Keyboard shortcuts', keys: ['?'], run: () => (overlay.value = 'keys') },
  ];
  if (!sees('admin')) hits.push({ group: 'Do', icon: 'lock', text: 'Log in with another token', run: () => (another.value = true) });
  if (loggedIn()) hits.push({ group: 'Do', icon: 'out', text: 'Log out', run: () => void logOut() });
  if (may('operator')) {
    hits.push(...queues.map((queue): Hit => {
      const [icon, verb, done] = queue.paused ? (['play', 'resume', 'takes jobs again'] as const) : (['pause', 'pause', 'is paused'] as const);
      const run = (): void => void act('POST', `${path('queues', queue.name)}/${verb}`, `Queue ${queue.name} ${done}`);
      return { group: 'Do', icon, text: `${queue.paused ? 'Resume' : 'Pause'} queue ${queue.name}`, run };
    }));
  }
  return hits;
}

/** `more`: whether there are queues that are not among these. */
function hits(text: string, queues: readonly QueueStats[], more: boolean): Hit[] {
  const wanted = text.trim().toLowerCase();
  const number = /^\d+$/.test(wanted) ? [{ group: 'Go to', icon: 'jobs', text: `Job ${wanted}`, run: () => go(toJob(wanted)) } satisfies Hit] : [];
  const all: Hit[] = [
    ...pages(),
    ...(wanted ? queues : queues.slice(0, QUEUES)).map((queue): Hit => ({ group: 'Go to', icon: 'queues', text: `Queue ${queue.name}`, run: () => go(toQueue(queue.name)) })),
    ...STATES.map((state): Hit => ({ group: 'Go to', icon: 'jobs', text: `Jobs that are ${state}`, run: () => go(to(['jobs'], { state })) })),
    ...commands(wanted ? queues : []),
  ];
  const found = all.filter(hit => wanted.split(/\s+/).every(word => hit.text.toLowerCase().includes(word)));
  const kind = wanted && !number.length ? [{ group: 'Search', icon: 'search', text: `Jobs of kind ${text.trim()}`, run: () => go(to(['jobs'], { kind: text.trim() })) } satisfies Hit] : [];
  const byName = more && wanted ? [{ group: 'Search', icon: 'queues', text: `Queues with “${text.trim()}” in their name`, run: () => go(to(['queues'], { search: text.trim(), by: 'name' })) } satisfies Hit] : [];
  return [...number, ...found.slice(0, MOST), ...byName, ...kind];
}

export function Palette() {
  const { data } = useOverview();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const dialog = useModal();
  const queues = data.value?.queues;
  const more = (data.value?.queue_count ?? 0) > (queues?.length ?? 0);
  const found = useMemo(() => hits(text, queues ?? [], more), [text, queues, more]);
  const close = (): void => {
    if (overlay.value === 'palette') overlay.value = undefined;
  };
  const run = (hit: Hit | undefined): void => {
    if (!hit) return;
    close();
    hit.run();
  };
  const move = (to: number): void => {
    setAt(to);
    document.getElementById(`hit-${to}`)?.scrollIntoView({ block: 'nearest' });
  };
  const key = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) move(Math.min(found.length - 1, Math.max(0, at + by)));
    else if (event.key === 'Enter') {
      // What was typed, though the hits of the last letters may not be drawn yet.
      const typed = (event.currentTarget as HTMLInputElement).value;
      run(typed === text ? found[at] : hits(typed, queues ?? [], more)[0]);
    }
    else return;
    event.preventDefault();
  };
  return (
    <dialog id="palette" aria-label="Search and commands" ref={dialog} onClose={close} onClick={event => event.target === dialog.current && close()}>
      <div class="ask">
        <Icon name="search" />
        <input type="text" role="combobox" aria-expanded="true" aria-controls="hits" aria-activedescendant={found.length ? `hit-${at}` : undefined} aria-label="Search or type a command"
          placeholder="A job’s number, a kind, a queue, or what to do" autocomplete="off" spellcheck={false} value={text}
          onInput={event => { setText(event.currentTarget.value); setAt(0); }} onKeyDown={key} />
        <kbd>esc</kbd>
      </div>
      <div class="hits" id="hits" role="listbox" aria-label="Results">
        {GROUPS.map(group => found.some(hit => hit.group === group) && (
          <div role="group" key={group} aria-label={group}>
            <h3 role="presentation">{group}</h3>
            {found.map((hit, i) => hit.group === group && (
              <div class="hit" id={`hit-${i}`} role="option" key={hit.text} aria-selected={i === at} onClick={() => run(hit)} onPointerMove={() => i !== at && setAt(i)}>
                <Icon name={hit.icon} /><span>{hit.text}</span>
                {hit.keys && <span class="end">{hit.keys.map(key => <kbd key={key}>{key}</kbd>)}</span>}
              </div>
            ))}
          </div>
        ))}
        {!found.length && <p class="state">Nothing is called so.</p>}
      </div>
    </dialog>
  );
}
