// Addresses. They are relative to <base>, so the same build works under any sub-path.

import { signal } from '@preact/signals';
import { query } from './api/client';

export interface Here {
  /** The unescaped segments behind the base. */
  parts: string[];
  query: URLSearchParams;
}

const base = new URL(document.baseURI);

function read(): Here {
  const rest = location.pathname.slice(base.pathname.length).split('/').filter(Boolean);
  return { parts: rest.map(unescape), query: new URLSearchParams(location.search) };
}

function unescape(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const here = signal<Here>(read());

/** The address of a page, for `href`: `to(['queues', 'mail'])`. */
export function to(parts: (string | number)[], values: Record<string, string | number | null | undefined> = {}): string {
  return query(parts.map(part => encodeURIComponent(part)).join('/') || './', values);
}

export const toQueue = (queue: string): string => to(['queues', queue]);
export const toJob = (id: string | number): string => to(['jobs', id]);

/** Goes to an address of `to`. */
export function go(href: string, replace = false): void {
  const before = location.pathname;
  history[replace ? 'replaceState' : 'pushState'](null, '', new URL(href, base));
  here.value = read();
  if (location.pathname !== before) arrive();
}

/** A new page begins at its top, and with its content. */
function arrive(): void {
  scrollTo(0, 0);
  document.getElementById('main')?.focus({ preventScroll: true });
}

/** Whether a click asks for this page in this tab. */
function isPlain(event: MouseEvent, link: HTMLAnchorElement): boolean {
  const modified = event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  const url = new URL(link.href);
  const inside = url.origin === base.origin && url.pathname.startsWith(base.pathname) && !url.pathname.startsWith(`${base.pathname}api/`);
  return !modified && !event.defaultPrevented && inside && !link.target && !link.hasAttribute('download');
}

addEventListener('popstate', () => (here.value = read()));
document.addEventListener('click', event => {
  const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>('a[href]') : null;
  if (!link || !isPlain(event, link)) return;
  event.preventDefault();
  go(link.href);
});
