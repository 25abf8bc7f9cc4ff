// What is read once, or now and then: lists, charts.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, get, type Problem } from './client';
import { useEvery } from './live';

export interface Resource<T> {
  data: T | undefined;
  /** Why the last attempt failed; the data before is still there. */
  problem: Problem | undefined;
  reload(): void;
}

interface Read<T> {
  of: string | null;
  data?: T;
  problem?: Problem;
}

/** Reads a path of the API; another path begins anew, `null` reads nothing. `every` is in milliseconds. */
export function useResource<T>(of: string | null, every?: number): Resource<T> {
  const [read, setRead] = useState<Read<T>>({ of });
  const abort = useRef<AbortController>(undefined);
  const reload = useCallback(() => {
    abort.current?.abort();
    if (of === null) return;
    const mine = (abort.current = new AbortController());
    const keep = (next: (before: Read<T>) => Read<T>): void => {
      if (!mine.signal.aborted) setRead(before => next(before.of === of ? before : { of }));
    };
    get<T>(of, mine.signal).then(
      data => keep(() => ({ of, data })),
      (error: unknown) => keep(before => ({ ...before, problem: asProblem(error) })),
    );
  }, [of]);
  useEffect(() => {
    reload();
    return () => abort.current?.abort();
  }, [reload]);
  useEvery(every, reload);
  const current = read.of === of ? read : { of };
  return { data: current.data, problem: current.problem, reload };
}
