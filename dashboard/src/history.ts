// The counters as series: how many jobs per second ended in which way, step by step.

import { query } from './api/client';
import type { Count, History, Timings } from './api/schema';
import type { Values } from './charts';

export const RANGES = ['15m', '1h', '6h', '24h', '30d'] as const;
export type Range = (typeof RANGES)[number];

/** How far back, and how much time one value is of; in seconds. */
const SPANS: Record<Range, { last: number; step: number; every: number }> = {
  '15m': { last: 900, step: 60, every: 10 },
  '1h': { last: 3_600, step: 60, every: 10 },
  '6h': { last: 21_600, step: 300, every: 30 },
  '24h': { last: 86_400, step: 900, every: 60 },
  '30d': { last: 2_592_000, step: 21_600, every: 300 },
};

export const historyPath = (range: Range, queue?: string): string =>
  query('history', { last_s: SPANS[range].last, step_s: SPANS[range].step, queue });

export const timingsPath = (range: Range, queue?: string): string =>
  query('timings', { last_s: SPANS[range].last, step_s: SPANS[range].step, by: 'none', queue });

export const marksPath = (range: Range): string => query('marks', { last_s: SPANS[range].last });

/** How often it is worth asking, in milliseconds. */
export const historyEvery = (range: Range): number => SPANS[range].every * 1_000;

export interface Grid {
  /** When each step begins, in milliseconds. */
  times: number[];
  /** The counts of those that match, per second; `null` where it is not counted yet. */
  rates(match?: (count: Count) => boolean): Values;
}

/** A step of which less than this part is counted says nothing yet. */
const ENOUGH = 0.25;

function timesOf(step: number, range: Range, now: number): number[] {
  const first = Math.floor((now - SPANS[range].last * 1_000) / step) * step + (step > 60_000 ? step : 0);
  return Array.from({ length: Math.max(1, Math.floor((now - first) / step) + 1) }, (_, i) => first + i * step);
}

/** How long jobs waited and ran, in seconds: 95 of a hundred no longer. `null` where nothing was measured. */
export function lasted({ step_ms: step, timed }: Timings, range: Range, now: number): { times: number[]; wait: Values; run: Values } {
  const times = timesOf(step, range, now), found = new Map(timed.map(each => [Date.parse(each.at), each]));
  const of = (what: 'wait' | 'run'): Values => times.map(at => {
    const ms = found.get(at)?.[what].p95_ms;
    return ms === null || ms === undefined ? null : ms / 1_000;
  });
  return { times, wait: of('wait'), run: of('run') };
}

export function grid(history: History, range: Range, now: number): Grid {
  const step = history.step_ms, until = Date.parse(history.counted_until);
  const times = timesOf(step, range, now), first = times[0] ?? now, size = times.length;
  const seconds = times.map(at => Math.min(step, Math.max(0, until - at)) / 1_000);
  const rates = (match: (count: Count) => boolean = () => true): Values => {
    const sums = new Array<number>(size).fill(0);
    for (const count of history.counts) {
      const i = Math.round((Date.parse(count.at) - first) / step);
      if (i >= 0 && i < size && match(count)) sums[i] = (sums[i] ?? 0) + count.count;
    }
    return sums.map((sum, i) => ((seconds[i] ?? 0) < (step / 1_000) * ENOUGH ? null : sum / (seconds[i] ?? 1)));
  };
  return { times, rates };
}

export const isEnd = ({ outcome }: Count): boolean => outcome === 'completed' || outcome === 'failed';
export const isCompleted = ({ outcome }: Count): boolean => outcome === 'completed';
export const isFailed = ({ outcome }: Count): boolean => outcome === 'failed';

export interface Share {
  completed: number;
  failed: number;
}

/** How many completed and how many attempts failed, by what the key makes of a count. */
export function shares(counts: readonly Count[], key: (count: Count) => string | null): Map<string | null, Share> {
  const found = new Map<string | null, Share>();
  for (const count of counts) {
    if (!isEnd(count)) continue;
    const share = found.get(key(count)) ?? { completed: 0, failed: 0 };
    share[count.outcome as 'completed' | 'failed'] += count.count;
    found.set(key(count), share);
  }
  return found;
}

/** The part of the attempts that failed; `null` without attempts. */
export function failing(share: Share | undefined): number | null {
  const all = share ? share.completed + share.failed : 0;
  return share && all ? share.failed / all : null;
}
