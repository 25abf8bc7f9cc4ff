// JSON as people read it. Values that the server hid are shown as hidden, not as text.

import type { ComponentChildren } from 'preact';
import { isRaw } from '../api/client';
import { Icon } from './Icon';

const HIDDEN = /^‹(\d+ characters (?:hidden|not shown))›$/;
/** More than this is cut, until somebody asks for all. */
export const MOST = 64 * 1024;

const P = ({ children }: { children: ComponentChildren }) => <span class="p">{children}</span>;

function hidden(value: unknown): string | null {
  if (typeof value === 'string') return HIDDEN.exec(value)?.[1] ?? null;
  if (value === null || typeof value !== 'object') return null;
  const entries = Object.entries(value);
  return entries.length === 1 && entries[0]?.[0] === 'hidden' && typeof entries[0][1] === 'number' ? `${entries[0][1]} characters hidden` : null;
}

function Value({ of, indent, redacted }: { of: unknown; indent: string; redacted: boolean }): ComponentChildren {
  const lost = redacted ? hidden(of) : null;
  if (lost !== null) return <span class="hide"><Icon name="lock" />{lost}</span>;
  if (typeof of === 'string') return <span class="s">{JSON.stringify(of)}</span>;
  if (of === null || typeof of !== 'object' || isRaw(of)) return <span class="n">{JSON.stringify(of)}</span>;
  const list = Array.isArray(of);
  const entries: [string | null, unknown][] = list ? of.map(value => [null, value]) : Object.entries(of);
  const [open, close] = list ? '[]' : '{}';
  if (!entries.length) return <P>{open}{close}</P>;
  const deeper = `${indent}  `;
  return (
    <>
      <P>{open}</P>
      {entries.map(([key, value], i) => (
        <span key={key ?? i}>{`\n${deeper}`}{key !== null && <><span class="k">{JSON.stringify(key)}</span><P>: </P></>}<Value of={value} indent={deeper} redacted={redacted} />{i < entries.length - 1 && <P>,</P>}</span>
      ))}
      {`\n${indent}`}<P>{close}</P>
    </>
  );
}

export function Json({ of, label, redacted = false }: { of: unknown; label: string; redacted?: boolean }) {
  const text = JSON.stringify(of, null, 2) ?? '';
  return <pre class="json" tabIndex={0} role="region" aria-label={label}>{text.length > MOST ? `${text.slice(0, MOST)}\n…` : <Value of={of} indent="" redacted={redacted} />}</pre>;
}

const SHOWN = 6;

/** The first fields in one line, for lists. */
export function ArgsLine({ of }: { of: unknown }) {
  if (of === null || typeof of !== 'object' || Array.isArray(of) || isRaw(of)) return <span class="args">{clip(of)}</span>;
  return <span class="args">{Object.entries(of).slice(0, SHOWN).map(([key, value]) => <span key={key}><i>{key}</i> {clip(value)}<s /></span>)}</span>;
}

function clip(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value) ?? '';
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
