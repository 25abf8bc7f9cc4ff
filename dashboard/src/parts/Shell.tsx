// What every page has around it: the side bar, the top bar, the bottom bar of phones.

import type { ComponentChildren } from 'preact';
import { live } from '../api/attention';
import { link, useOverview } from '../api/live';
import { overlay, toggleLive } from '../keys';
import { say } from './Say';
import { sees, session } from '../session';
import { to } from '../router';
import { toggleTheme } from '../theme';
import { isAtWork } from '../workers';
import { Icon, Mark, type IconName } from './Icon';

export type PageName = 'overview' | 'queues' | 'jobs' | 'schedules' | 'workers' | 'audit';

interface ShellProps {
  page: PageName;
  /** Where one is: the last is the page itself. */
  crumbs: { text: string; href?: string; mono?: boolean }[];
  children: ComponentChildren;
}

function Nav({ page }: { page: PageName }) {
  const overview = useOverview().data.value;
  const alive = overview?.workers.filter(isAtWork).length;
  const items: [PageName, string, string, number | undefined][] = [
    ['overview', 'Overview', to([]), undefined],
    ['queues', 'Queues', to(['queues']), overview?.queue_count],
    ['jobs', 'Jobs', to(['jobs']), undefined],
    ['schedules', 'Schedules', to(['schedules']), undefined],
    ['workers', 'Workers', to(['workers']), alive],
  ];
  return (
    <nav class="nav" aria-label="Main">
      {items.map(([name, text, href, n]) => (
        <a key={name} href={href} aria-current={name === page ? 'page' : undefined} title={text}>
          <Icon name={name} /><span class="label">{text}</span>{n !== undefined && <span class="count">{n}</span>}
        </a>
      ))}
    </nav>
  );
}

/** LH of l.haddad. */
function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  return (words.length > 1 ? `${words[0]?.[0]}${words[1]?.[0]}` : name.slice(0, 2)).toUpperCase();
}

function Side({ page }: { page: PageName }) {
  const who = session.value;
  const store = useOverview().data.value?.store ?? who?.store;
  return (
    <aside class="side">
      <a class="brand" href={to([])}><Mark /><span class="label">Windlass</span></a>
      <div class="store"><Icon name="store" /><span class="clip grow small strong label">{store ?? 'store'}</span></div>
      <Nav page={page} />
      <div class="side-foot">
        {sees('admin') && <nav class="nav" aria-label="More">
          <a href={to(['audit'])} aria-current={page === 'audit' ? 'page' : undefined} title="Audit log"><Icon name="audit" /><span class="label">Audit log</span></a>
        </nav>}
        <div class="who">
          <span class="avatar" aria-hidden="true">{initials(who?.actor ?? '?')}</span>
          <span class="grow small label clip"><span class="strong">{who?.actor ?? 'nobody'}</span><br /><span class="faint">{who?.read_only ? 'read only' : who?.role}</span></span>
          <button class="btn quiet only" type="button" onClick={() => say(`${toggleTheme()} theme`)} aria-label="Switch between light and dark" title="Theme (t)"><Icon name="theme" /></button>
        </div>
      </div>
    </aside>
  );
}

function Tools() {
  const how = !live.value ? 'Paused' : link.value === 'polling' ? 'Polling' : 'Live';
  return (
    <div class="top-tools">
      <button class="find" type="button" onClick={() => (overlay.value = 'palette')} aria-haspopup="dialog" aria-label="Search or run a command">
        <Icon name="search" /><span>Search or run a command</span><kbd aria-hidden="true">/</kbd>
      </button>
      <button class="live" type="button" onClick={toggleLive} aria-pressed={live.value}
        title={how === 'Polling' ? 'The live stream does not get through; asking every two seconds. Pause (.)' : 'Pause live updates (.)'}><i /><span>{how}</span></button>
    </div>
  );
}

const BOTTOM: [PageName, string, string[]][] = [['overview', 'Overview', []], ['queues', 'Queues', ['queues']], ['jobs', 'Jobs', ['jobs']], ['workers', 'Workers', ['workers']]];

export function Shell({ page, crumbs, children }: ShellProps) {
  const skip = (event: Event): void => {
    event.preventDefault();
    document.getElementById('main')?.focus();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <div class="shell">
        <Side page={page} />
        <div>
          <header class="top">
            <a class="phone-only" href={to([])} aria-label="Windlass, overview"><Mark of="brand-mark" /></a>
            <nav aria-label="Where you are" class="clip"><ol class="crumbs">
              {crumbs.map(({ text, href, mono }, i) => (
                <li key={text} class={i < crumbs.length - 1 ? 'wide-only' : undefined}>{href ? <a href={href}>{text}</a> : <span class={`strong clip${mono ? ' mono' : ''}`}>{text}</span>}</li>
              ))}
            </ol></nav>
            <Tools />
          </header>
          <main id="main" tabIndex={-1}><div class="page">{children}</div></main>
        </div>
      </div>
      <nav class="tabs-bottom" aria-label="Main, bottom">
        {BOTTOM.map(([name, text, parts]) => <a key={name} href={to(parts)} aria-current={name === page ? 'page' : undefined}><Icon name={name as IconName} />{text}</a>)}
        <a href={to(['schedules'])} role="button" onClick={event => { event.preventDefault(); overlay.value = 'palette'; }}><Icon name="more" />More</a>
      </nav>
    </>
  );
}
