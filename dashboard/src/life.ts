// The life of a job as spans of time, as far as its record tells: when an attempt before the last began is not kept, so the time up to
// its failure is one span of waiting and running.

import type { JobRecord, JobState } from './api/schema';

export type Tone = 'available' | 'running' | 'retryable' | 'discarded' | 'scheduled' | 'cancelled' | 'completed';

export interface Span {
  from: number;
  to: number;
  tone: Tone;
  /** What it is, in the legend. */
  what: string;
  /** What stands in it. */
  text: string;
}

export interface Life {
  from: number;
  to: number;
  spans: Span[];
  /** When attempts failed. */
  failures: { at: number; attempt: number }[];
}

const END: Partial<Record<JobState, Tone>> = { completed: 'completed', cancelled: 'cancelled', discarded: 'discarded' };

export function life(job: JobRecord, now: number): Life {
  const begin = Date.parse(job.enqueued_at);
  const due = job.scheduled_at ? Date.parse(job.scheduled_at) : null;
  const end = job.finished_at ? Date.parse(job.finished_at) : now;
  const claimed = job.claimed_at ? Date.parse(job.claimed_at) : null;
  const failures = job.errors.map(({ at, attempt }) => ({ at: Date.parse(at), attempt }));
  const spans: Span[] = [];
  let at = begin;
  const until = (to: number, tone: Tone, what: string, text: string): void => {
    if (to > at) spans.push({ from: at, to, tone, what, text });
    at = Math.max(at, to);
  };
  for (const [i, failure] of failures.entries()) {
    if (claimed !== null && claimed > at && claimed < failure.at) lastClaim(claimed, i ? 'retryable' : 'available', i > 0);
    const known = at === claimed;
    until(failure.at, known ? 'discarded' : i ? 'retryable' : 'available', known ? 'failed attempt' : 'waited and tried', `attempt ${failure.attempt}`);
  }
  if (claimed !== null && claimed >= at && end > claimed && (job.state === 'running' || job.finished_at)) {
    lastClaim(claimed, failures.length ? 'retryable' : 'available', failures.length > 0);
    until(end, job.state === 'running' ? 'running' : END[job.state] ?? 'completed', job.state === 'running' ? 'running' : 'ran', `attempt ${job.attempt}`);
  }
  const waits: Tone = job.state === 'retryable' ? 'retryable' : job.state === 'scheduled' ? 'scheduled' : 'available';
  until(end, waits, job.state === 'retryable' ? 'backoff' : job.state === 'scheduled' ? 'scheduled' : 'waiting', '');
  if (due && due > now && !job.finished_at) until(due, waits, job.state === 'retryable' ? 'backoff' : 'scheduled', `until ${job.state === 'retryable' ? 'the next attempt' : 'its time'}`);
  return { from: begin, to: Math.max(at, begin + 1), spans, failures };

  function lastClaim(to: number, tone: Tone, backoff: boolean): void {
    until(to, tone, backoff ? 'backoff and waiting' : 'waiting', '');
  }
}

/** How long each sort of time was, the longest first. */
export function sums({ spans }: Life): { what: string; tone: Tone; ms: number }[] {
  const found = new Map<string, { what: string; tone: Tone; ms: number }>();
  for (const { what, tone, from, to } of spans) {
    const sum = found.get(what) ?? { what, tone, ms: 0 };
    sum.ms += to - from;
    found.set(what, sum);
  }
  return [...found.values()].sort((a, b) => b.ms - a.ms);
}
