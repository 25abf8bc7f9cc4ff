// The keyboard. Keys without a modifier work where nobody is typing and no dialog is open.

import { signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { live } from './api/attention';
import { say } from './parts/Say';
import { go, to } from './router';
import { toggleTheme } from './theme';

export type Overlay = 'palette' | 'keys' | undefined;
/** What is open over the page. */
export const overlay = signal<Overlay>(undefined);
/** The row of the list that the keys are at; -1 for none. */
export const row = signal(-1);

type Keys = Record<string, (() => void) | undefined>;
/** Keys of the page that is shown, the newest last. */
const pages: Keys[] = [];

/** Adds keys for as long as the component is there, from when it is seen on. */
export function useKeys(keys: Keys): void {
  useLayoutEffect(() => {
    pages.push(keys);
    return () => void pages.splice(pages.indexOf(keys), 1);
  });
}

export const GOES: Record<string, [name: string, parts: string[]]> = {
  o: ['Overview', []],
  q: ['Queues', ['queues']],
  j: ['Jobs', ['jobs']],
  s: ['Schedules', ['schedules']],
  w: ['Workers', ['workers']],
  a: ['Audit log', ['audit']],
};

export function toggleLive(): void {
  live.value = !live.value;
  say(live.value ? 'live updates on' : 'live updates paused');
}

const ANYWHERE: Keys = {
  '/': () => focusFilter() || (overlay.value = 'palette'),
  '?': () => (overlay.value = 'keys'),
  t: () => say(`${toggleTheme()} theme`),
  '.': toggleLive,
  j: () => step(1),
  k: () => step(-1),
  x: () => current()?.querySelector<HTMLInputElement>('input[type="checkbox"]')?.click(),
};

const rows = () => document.querySelectorAll('table[data-list] tbody tr');
/** The row that the keys are at: by its number, since what marks it is drawn a little later. */
const current = () => rows()[row.value];

function focusFilter(): boolean {
  const input = document.querySelector<HTMLInputElement>('.query input');
  input?.focus();
  return !!input;
}

function step(by: number): void {
  const { length } = rows();
  if (!length) return;
  row.value = Math.min(length - 1, Math.max(0, row.value + by));
  current()?.scrollIntoView({ block: 'nearest' });
}

function open(event: KeyboardEvent): void {
  // Enter on something that has the focus belongs to that.
  if (event.target !== document.body && !(event.target as Element).matches('main')) return;
  current()?.querySelector('a')?.click();
}

/** When `g` was pressed: long ago, so that no key soon after the load is taken for its second. */
let pending = -Infinity;
const PENDING_MS = 1_200;

document.addEventListener('keydown', event => {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    overlay.value = 'palette';
    return;
  }
  const typing = event.target instanceof Element && event.target.matches('input:not([type="checkbox"]), textarea, select');
  if (typing || event.metaKey || event.ctrlKey || event.altKey || event.repeat && event.key !== 'j' && event.key !== 'k' || document.querySelector('dialog[open]')) return;
  const going = event.timeStamp - pending < PENDING_MS ? GOES[event.key] : undefined;
  pending = event.key === 'g' ? event.timeStamp : -Infinity;
  if (going) return go(to(going[1]));
  if (event.key === 'Enter') return open(event);
  const act = [...pages].reverse().find(keys => keys[event.key])?.[event.key] ?? ANYWHERE[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
