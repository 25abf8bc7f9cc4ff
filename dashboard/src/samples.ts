// The backlog while this page was open: the store keeps no history of it, so the frames of the live stream are kept, for an hour.

import { signal } from '@preact/signals';
import type { Overview } from './api/schema';

export interface Sample {
  at: number;
  available: number;
  running: number;
  queues: Map<string, { available: number; running: number }>;
}

const MOST = 720;
const APART_MS = 5_000;

export const samples = signal<readonly Sample[]>([]);

/** Keeps the first, then one every five seconds; the newest is always there. */
export function keep(overview: Overview, at: number): void {
  const before = samples.peek(), last = before.at(-1), second = before.at(-2);
  if (last && at <= last.at) return;
  const queues = new Map(overview.queues.map(({ name, available, running }) => [name, { available, running }]));
  const sample = { at, available: overview.totals.available, running: overview.totals.running, queues };
  const replaces = last && second && at - second.at < APART_MS;
  samples.value = [...(replaces ? before.slice(0, -1) : before), sample].slice(-MOST);
}
