// The filter of jobs as text: `queue:mail kind:mail.send error:"HTTP 503" args:{"user":7}`. The address of the page has the same words.

import { parse } from './api/client';
import type { BulkFilter, JobState } from './api/schema';

export const STATES: readonly JobState[] = ['scheduled', 'available', 'running', 'retryable', 'completed', 'cancelled', 'discarded'];
/** Nothing happens to them by itself any more, but they can be tried again. */
export const isDead = (state: JobState | undefined): boolean => state === 'cancelled' || state === 'discarded';

export const FIELDS = ['queue', 'kind', 'tag', 'error', 'args'] as const;
export type Field = (typeof FIELDS)[number];

export interface Filter {
  state?: JobState;
  queue?: string;
  kind?: string;
  tag?: string;
  /** Part of the last error. */
  error?: string;
  /** What the args contain: a JSON object as text. */
  args?: string;
}

export function fromQuery(values: URLSearchParams): Filter {
  const filter: Filter = {};
  const state = values.get('state') as JobState | null;
  if (state && STATES.includes(state)) filter.state = state;
  for (const field of FIELDS) {
    const value = values.get(field);
    if (value) filter[field] = value;
  }
  return filter;
}

export type Typed = { filter: Filter } | { job: string } | { wrong: string };

/** What stands between spaces; a text in quotes and a JSON object may have some within. */
function terms(text: string): string[] {
  const found: string[] = [];
  let term = '', depth = 0, quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (!quoted && depth <= 0 && /\s/.test(char)) {
      found.push(term);
      term = '';
      continue;
    }
    term += char;
    if (quoted && char === '\\') term += text.charAt(++at);
    else if (char === '"') quoted = !quoted;
    else if (!quoted && '{['.includes(char)) depth++;
    else if (!quoted && '}]'.includes(char)) depth--;
  }
  return [...found, term].filter(Boolean);
}

/** A text in quotes without them. */
const unquoted = (text: string): string => (/^".+"$/.test(text) ? text.slice(1, -1) : text);

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
  } catch {
    return false;
  }
}

/** What somebody typed, added to a filter. A number is a job, a word alone a kind. */
export function typed(text: string, before: Filter): Typed {
  const filter = { ...before };
  for (const term of terms(text)) {
    const colon = term.indexOf(':');
    const field = colon < 0 ? 'kind' : term.slice(0, colon), value = unquoted(term.slice(colon + 1));
    if (colon < 0 && /^\d+$/.test(term)) return { job: term };
    if (field === 'id' && /^\d+$/.test(value)) return { job: value };
    if (!value) return { wrong: `${term} has no value; write for example queue:mail` };
    if (field === 'state') {
      if (!STATES.includes(value as JobState)) return { wrong: `${value} is no state; use one of ${STATES.join(', ')}` };
      filter.state = value as JobState;
    } else if (field === 'args' && !isObject(value)) {
      return { wrong: `${value} is no JSON object with members; write for example args:{"user": 7}` };
    } else if (FIELDS.includes(field as Field)) filter[field as Field] = value;
    else return { wrong: `jobs are not filtered by ${field}; use queue:, kind:, tag:, error:, args:, state: or the number of a job` };
  }
  return { filter };
}

function word(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  return /\s/.test(value) && !value.startsWith('{') ? `"${value}"` : value;
}

export const asText = (filter: Filter | BulkFilter | { ids: number }): string =>
  Object.entries(filter).filter(([, value]) => value).map(([field, value]) => `${field}:${word(value)}`).join(' ');

/** As changes of many jobs take it. */
export const forBulk = ({ args, ...filter }: Filter): BulkFilter => (args ? { ...filter, args: parse(args) } : filter);

export const isEmpty = (filter: Filter): boolean => !asText(filter);
