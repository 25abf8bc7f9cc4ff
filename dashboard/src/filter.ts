// The filter of jobs as text: `queue:mail kind:mail.send tag:vip`. The address of the page has the same words.

import type { BulkFilter, JobState } from './api/schema';

export const STATES: readonly JobState[] = ['scheduled', 'available', 'running', 'retryable', 'completed', 'cancelled', 'discarded'];
export const FIELDS = ['queue', 'kind', 'tag'] as const;
export type Field = (typeof FIELDS)[number];

export interface Filter {
  state?: JobState;
  queue?: string;
  kind?: string;
  tag?: string;
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

/** What somebody typed, added to a filter. A number is a job, a word alone a kind. */
export function typed(text: string, before: Filter): Typed {
  const filter = { ...before };
  for (const term of text.trim().split(/\s+/).filter(Boolean)) {
    const colon = term.indexOf(':');
    const field = colon < 0 ? 'kind' : term.slice(0, colon), value = term.slice(colon + 1);
    if (colon < 0 && /^\d+$/.test(term)) return { job: term };
    if (field === 'id' && /^\d+$/.test(value)) return { job: value };
    if (!value) return { wrong: `${term} has no value; write for example queue:mail` };
    if (field === 'state') {
      if (!STATES.includes(value as JobState)) return { wrong: `${value} is no state; use one of ${STATES.join(', ')}` };
      filter.state = value as JobState;
    } else if (FIELDS.includes(field as Field)) filter[field as Field] = value;
    else return { wrong: `jobs are not filtered by ${field}; use queue:, kind:, tag:, state: or the number of a job` };
  }
  return { filter };
}

export const asText = (filter: BulkFilter | { ids: number }): string =>
  Object.entries(filter).filter(([, value]) => value).map(([field, value]) => `${field}:${value}`).join(' ');

export const isEmpty = (filter: BulkFilter): boolean => !asText(filter);
