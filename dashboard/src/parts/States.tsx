// Nothing there yet, nothing there, not to be had, and not of now: four different answers, which look different.

import type { ComponentChildren } from 'preact';
import type { Problem } from '../api/client';
import { now } from '../clock';
import { moment } from '../format';
import { Icon } from './Icon';

export function Loading({ what }: { what: string }) {
  return <p class="state" role="status" aria-busy="true"><span class="dot wait" />Reading {what}…</p>;
}

export function Nothing({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state empty">
      <p class="strong">{title}</p>
      {children && <p class="muted">{children}</p>}
    </div>
  );
}

const sentence = (text: string): string => (text ? text.charAt(0).toUpperCase() + text.slice(1).replace(/([^.?!])$/, '$1.') : '');

/** An error in full: what was wrong, what to do, by which id the server's log knows it. */
export function Failed({ what, problem, again }: { what: string; problem: Problem; again?: () => void }) {
  return (
    <div class="state failed" role="alert">
      <p class="strong"><span class="dot bad" />{what}: {problem.title}</p>
      <p class="muted">{sentence(problem.detail)}</p>
      <p class="row">
        {again && <button class="btn" type="button" onClick={again}><Icon name="retry" />Try again</button>}
        {problem.requestId && <span class="faint small">request <code>{problem.requestId}</code></span>}
      </p>
    </div>
  );
}

/** What is shown is still there, but could not be renewed. */
export function Stale({ since, problem }: { since?: string | undefined; problem: Problem }) {
  return (
    <p class="stale" role="status">
      <span class="dot warn" />
      <span><b class="strong">These figures are {since ? `from ${moment(since, now.value)}` : 'not of now'}.</b> {problem.title}: {problem.detail}. Trying again.</span>
    </p>
  );
}
