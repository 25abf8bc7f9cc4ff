import type { ComponentChildren } from 'preact';
import { useKeys } from '../keys';
import { go } from '../router';
import { Icon } from './Icon';

/** The page before each page that this tab has seen; cursors only lead forward. */
const before = new Map<string, string>();

interface PagesProps {
  /** Addresses: of this page, of the first one, of the next. */
  at: string;
  first: string;
  next: string | undefined;
  more?: string;
  children?: ComponentChildren;
}

/** Below a list that comes in pages: on to the next one, and back to the one before, or where this tab has not seen that, to the first. */
export function Pages({ at, first, next, more = 'More', children }: PagesProps) {
  if (next && !before.has(next)) before.set(next, at);
  const back = at === first ? undefined : before.get(at) ?? first;
  useKeys({ ']': next ? () => go(next) : undefined, '[': back ? () => go(back) : undefined });
  return children || back || next ? (
    <div class="table-foot">{children}<span class="tools">
      {back && <a class="btn" href={back}><Icon name="left" />{back === first ? 'First page' : 'Back'} <kbd aria-hidden="true">[</kbd></a>}
      {next && <a class="btn" href={next}>{more} <kbd aria-hidden="true">]</kbd><Icon name="right" /></a>}
    </span></div>
  ) : null;
}
