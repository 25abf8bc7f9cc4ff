// The counters as series: how many jobs per second ended in which way, step by step.

import { query } from './api/client';
import type { Counted, History, Timings } from './api/schema';
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

/** What the counters say, summed but for what is asked for: an hour of every kind is megabytes where there are many. */
export const historyPath = (range: Range, more: { by: 'none' | 'queue' | 'kind' | 'queue_and_kind'; queue?: string; outcome?: string; top?: number }): string =>
  query('history', { last_s: SPANS[range].last, step_s: SPANS[range].step, ...more });

export const timingsPath = (range: Range, queue?: string): string =>
  query('timings', { last_s: SPANS[range].last, step_s: SPANS[range].step, by: 'none', queue });

export const marksPath = (range: Range): string => query('marks', { last_s: SPANS[range].last });

/** How often it is worth asking, in milliseconds. */
export const historyEvery = (range: Range): number => SPANS[range].every * 1_000;

export interface Grid {
  /** When each step begins, in milliseconds. */
  times: number[];
  /** The counts of those that match, per second; `null` where it is not counted yet. */
  rates(match?: (series: Counted) => boolean): Values;
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
  const offset = history.begins === null ? 0 : Math.round((Date.parse(history.begins) - first) / step);
  const rates = (match: (series: Counted) => boolean = () => true): Values => {
    const sums = new Array<number>(size).fill(0);
    for (const [at, count] of history.series.filter(match).flatMap(each => each.counts)) {
      const i = at + offset;
      if (i >= 0 && i < size) sums[i] = (sums[i] ?? 0) + count;
    }
    return sums.map((sum, i) => ((seconds[i] ?? 0) < (step / 1_000) * ENOUGH ? null : sum / (seconds[i] ?? 1)));
  };
  return { times, rates };
}

export const isEnd = ({ outcome }: Counted): boolean => outcome === 'completed' || outcome === 'failed';
export const isCompleted = ({ outcome }: Counted): boolean => outcome === 'completed';
export const isFailed = ({ outcome }: Counted): boolean => outcome === 'failed';

export interface Share {
  completed: number;
  failed: number;
}

export const total = ({ counts }: Counted): number => counts.reduce((sum, [, count]) => sum + count, 0);

/** How many completed and how many attempts failed, by what the key makes of a series. */
export function shares({ series }: History, key: (series: Counted) => string | null): Map<string | null, Share> {
  const found = new Map<string | null, Share>();
  for (const each of series.filter(isEnd)) {
    const share = found.get(key(each)) ?? { completed: 0, failed: 0 };
    share[each.outcome as 'completed' | 'failed'] += total(each);
    found.set(key(each), share);
  }
  return found;
}

/** The part of the attempts that failed; `null` without attempts. */
export function failing(share: Share | undefined): number | null {
  const all = share ? share.completed + share.failed : 0;
  return share && all ? share.failed / all : null;
}
