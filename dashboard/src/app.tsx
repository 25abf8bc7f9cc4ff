// The dashboard: which page an address shows.

import { effect } from '@preact/signals';
import { render, type ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect } from 'preact/hooks';
import { useEvery, useOverview } from './api/live';
import { now } from './clock';
import { overlay, row } from './keys';
import { Keys } from './parts/Keys';
import { Palette } from './parts/Palette';
import { Runs } from './parts/Runs';
import { Say, say } from './parts/Say';
import { Shell, type PageName } from './parts/Shell';
import { Failed, Loading, Nothing } from './parts/States';
import { Audit } from './pages/Audit';
import { Job } from './pages/Job';
import { Jobs } from './pages/Jobs';
import { Login } from './pages/Login';
import { Overview } from './pages/Overview';
import { Queue } from './pages/Queue';
import { Queues } from './pages/Queues';
import { Schedules } from './pages/Schedules';
import { Workers } from './pages/Workers';
import { here, to } from './router';
import { keep } from './samples';
import { another, enter, loadSession, session, sessionProblem } from './session';

const SAMPLE_MS = 5_000;

interface Shown {
  page: PageName;
  title: string;
  crumbs: { text: string; href?: string; mono?: boolean }[];
  content: ComponentChildren;
}

const one = (page: PageName, title: string, content: ComponentChildren): Shown => ({ page, title, crumbs: [{ text: title }], content });

function shown([first, second, ...rest]: string[]): Shown {
  if (first === undefined) return one('overview', 'Overview', <Overview />);
  if (!rest.length && second !== undefined) {
    if (first === 'jobs') return { page: 'jobs', title: `Job ${second}`, crumbs: [{ text: 'Jobs', href: to(['jobs']) }, { text: second, mono: true }], content: <Job key={second} id={second} /> };
    if (first === 'queues') return { page: 'queues', title: second, crumbs: [{ text: 'Queues', href: to(['queues']) }, { text: second }], content: <Queue key={second} name={second} /> };
  }
  if (second === undefined) {
    switch (first) {
      case 'jobs':
        return one('jobs', 'Jobs', <Jobs />);
      case 'queues':
        return one('queues', 'Queues', <Queues />);
      case 'workers':
        return one('workers', 'Workers', <Workers />);
      case 'schedules':
        return one('schedules', 'Schedules', <Schedules />);
      case 'audit':
        return one('audit', 'Audit log', <Audit />);
    }
  }
  return one('overview', 'No such page', <Nothing title="There is no page here"><a class="strong" href={to([])}>To the overview</a></Nothing>);
}

/** What is there on every page: the overview is watched for the side bar and the backlog's chart. */
function Signed() {
  const { page, title, crumbs, content } = shown(here.value.parts);
  const overview = useOverview().data.value;
  // Frames come when something changes; what stays as it is has to be drawn too.
  const sample = useCallback(() => overview && keep(overview, now.peek()), [overview]);
  useEffect(() => void sample(), [sample]);
  useEvery(SAMPLE_MS, sample);
  // At once, or it would take back what a quick hand does.
  useLayoutEffect(() => {
    document.title = `${title} · Windlass`;
    row.value = -1;
    say(title);
  }, [title]);
  return (
    <>
      <Shell page={page} crumbs={crumbs}>{content}</Shell>
      <Runs />
      {overlay.value === 'palette' && <Palette />}
      {overlay.value === 'keys' && <Keys />}
    </>
  );
}

function App() {
  const who = session.value, problem = sessionProblem.value;
  let content = <Signed />;
  if (!who) content = <main id="main" tabIndex={-1} class="alone">{problem ? <Failed what="Windlass cannot be reached" problem={problem} again={() => void loadSession()} /> : <Loading what="who you are" />}</main>;
  else if (who.role === null || another.value) content = <Login />;
  return <>{content}<Say /></>;
}

// The title of the login page; the others name theirs.
effect(() => {
  if (session.value?.role === null || another.value) document.title = 'Log in · Windlass';
});

void enter();
const root = document.getElementById('app');
if (root) render(<App />, root);
