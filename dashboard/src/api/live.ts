// What changes by itself. One stream of server-sent events for all that a page watches; where streams do not pass, the same is
// asked for every few seconds. Nothing is asked for while the tab is hidden or the user has paused.

import { effect, signal, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { setClock } from '../clock';
import { attentive } from './attention';
import { address, asProblem, get, path, problemOf, query, read, type Problem } from './client';
import type { Overview } from './schema';

/** The newest state of one topic. */
export interface Topic<T> {
  data: Signal<T | undefined>;
  /** Why the last attempt to read it failed; the data before is still there. */
  problem: Signal<Problem | undefined>;
}

interface Watched extends Topic<unknown> {
  readers: number;
  /** How often it was told; an answer that was overtaken is dropped. */
  told: number;
}

/** How updates come. */
export const link = signal<'off' | 'stream' | 'polling'>('off');

const POLL_MS = 2_000;
/** A broken stream may come back by itself within this time. */
const GRACE_MS = 4_000;
/** A stream that says nothing for so long after its start is taken to be held up by a proxy. */
const SILENCE_MS = 5_000;
const TRY_AGAIN_MS = 30_000;

const watched = new Map<string, Watched>();
const changed = signal(0);

/** Where one reads a topic without a stream. */
function source(topic: string): string {
  const colon = topic.indexOf(':');
  if (colon < 0) return topic;
  const folder = { queue: 'queues', job: 'jobs', bulk: 'bulk' }[topic.slice(0, colon)] ?? topic.slice(0, colon);
  return path(folder, topic.slice(colon + 1));
}

export async function refresh(topic: string): Promise<void> {
  const entry = watched.get(topic);
  if (!entry) return;
  const { told } = entry;
  try {
    const data = await get(source(topic));
    // Frames of a stream may be old, for only changes are sent; this answer is of now.
    if (topic === 'overview') setClock((data as Overview).at);
    if (watched.get(topic) === entry && entry.told === told) take(topic, data);
  } catch (error) {
    if (entry.told === told) entry.problem.value = asProblem(error);
  }
}

function take(topic: string, data: unknown): void {
  const entry = watched.get(topic);
  if (!entry) return;
  entry.told++;
  entry.data.value = data;
  entry.problem.value = undefined;
}

export const refreshAll = (): void => [...watched.keys()].forEach(topic => void refresh(topic));

// The connection follows what is watched, whether somebody looks, and whether it is wanted.
effect(() => {
  changed.value;
  if (!attentive.value || !watched.size) {
    link.value = 'off';
    return;
  }
  // Topics that go and come within one change of page lead to one stream, not to several.
  let close: (() => void) | undefined;
  const soon = setTimeout(() => (close = connect([...watched.keys()])), 0);
  return () => {
    clearTimeout(soon);
    close?.();
  };
});

/** Which topic an event of the stream is of: its name is the sort of topic, its data says the rest. */
function topicOf(kind: string, data: { id?: unknown; name?: unknown }): string {
  return kind === 'overview' ? kind : `${kind}:${String(data.id ?? data.name)}`;
}

const KINDS = ['overview', 'queue', 'job', 'bulk'];

function connect(topics: string[]): () => void {
  const stream = new EventSource(address(query('live', { topics: topics.join(',') })));
  let poll: ReturnType<typeof setInterval> | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  let falling: ReturnType<typeof setTimeout> | undefined;
  const fallBack = (): void => {
    link.value = 'polling';
    if (poll) return;
    refreshAll();
    poll = setInterval(refreshAll, POLL_MS);
  };
  falling = setTimeout(fallBack, SILENCE_MS);
  const works = (): void => {
    clearTimeout(falling);
    clearInterval(poll);
    falling = poll = undefined;
    link.value = 'stream';
  };
  for (const kind of KINDS) {
    stream.addEventListener(kind, event => {
      works();
      const data = read((event as MessageEvent<string>).data) as object;
      take(topicOf(kind, data), data);
    });
  }
  stream.addEventListener('problem', event => {
    works();
    const said = JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>;
    const entry = watched.get(String(said['topic']));
    if (entry) entry.problem.value = problemOf(said);
  });
  stream.addEventListener('error', () => {
    // The browser connects again by itself, but for answers that it takes as final.
    if (stream.readyState !== EventSource.CLOSED) falling ??= setTimeout(fallBack, GRACE_MS);
    else {
      fallBack();
      again ??= setTimeout(() => changed.value++, TRY_AGAIN_MS);
    }
  });
  return () => {
    [falling, again].forEach(clearTimeout);
    clearInterval(poll);
    stream.close();
  };
}

// Whoever comes back to the tab sees what is, not what was.
effect(() => {
  if (attentive.value) refreshAll();
});

function watch<T>(topic: string): Topic<T> & { leave(): void } {
  let entry = watched.get(topic);
  if (!entry) {
    entry = { readers: 0, told: 0, data: signal<unknown>(undefined), problem: signal<Problem | undefined>(undefined) };
    watched.set(topic, entry);
    changed.value = changed.peek() + 1;
    void refresh(topic);
  }
  const mine = entry;
  mine.readers++;
  const leave = (): void => {
    if (--mine.readers) return;
    watched.delete(topic);
    changed.value = changed.peek() + 1;
  };
  return { data: mine.data as Signal<T | undefined>, problem: mine.problem, leave };
}

/** Watches a topic for as long as the component is there. */
export function useTopic<T>(topic: string): Topic<T> {
  const reading = useMemo(() => watch<T>(topic), [topic]);
  useEffect(() => reading.leave, [reading]);
  return reading;
}

export const useOverview = (): Topic<Overview> => useTopic<Overview>('overview');

/** Calls it every so many milliseconds, while updates are wanted and the tab is seen. */
export function useEvery(ms: number | undefined, what: () => void): void {
  const on = ms !== undefined && attentive.value;
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(what, ms);
    return () => clearInterval(timer);
  }, [on, ms, what]);
}
