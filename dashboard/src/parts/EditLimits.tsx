// Limits of a queue: how many run at once, and how many start in a time. Empty fields take a limit away.

import { useState } from 'preact/hooks';
import { act } from '../act';
import { path } from '../api/client';
import { refresh } from '../api/live';
import type { QueueStats } from '../api/schema';
import { Dialog } from './Dialog';

const PERIODS: [ms: number, name: string][] = [[1_000, 'second'], [60_000, 'minute'], [3_600_000, 'hour'], [86_400_000, 'day']];

/** A field of a number from 1 on. */
export const number = (value: string, set: (text: string) => void) => ({ class: 'field tab', type: 'number' as const, min: 1, value, onInput: (event: { currentTarget: HTMLInputElement }) => set(event.currentTarget.value) });

/** The time that a rate is in. */
export function Period({ ms, set }: { ms: number; set(ms: number): void }) {
  const periods = PERIODS.some(([each]) => each === ms) ? PERIODS : [...PERIODS, [ms, `${ms} ms`] as [number, string]];
  return <label class="confirm"><span>per</span><select class="field" value={ms} onChange={event => set(Number(event.currentTarget.value))}>{periods.map(([each, name]) => <option key={each} value={each}>{name}</option>)}</select></label>;
}

export function EditLimits({ queue, close }: { queue: QueueStats; close(): void }) {
  const { concurrency, rate } = queue.limits;
  const [atOnce, setAtOnce] = useState(String(concurrency ?? ''));
  const [starts, setStarts] = useState(String(rate?.count ?? ''));
  const [period, setPeriod] = useState(rate?.period_ms ?? 1_000);
  const [burst, setBurst] = useState(String(rate?.burst ?? ''));
  const save = async (): Promise<void> => {
    const limits = {
      ...(atOnce && { concurrency: Number(atOnce) }),
      ...(starts && { rate: { count: Number(starts), period_ms: period, ...(burst && { burst: Number(burst) }) } }),
    };
    if (!(await act('PUT', `${path('queues', queue.name)}/limits`, `Limits of ${queue.name} changed`, limits))) return;
    void refresh(`queue:${queue.name}`);
    close();
  };
  return (
    <Dialog title={`Limits of ${queue.name}`} close={close} submit={save} note="Over all workers, from now on" verb="Change">
      <label class="confirm"><span>Jobs at once</span><input {...number(atOnce, setAtOnce)} placeholder="no limit" /></label>
      <div class="fields">
        <label class="confirm"><span>Starts</span><input {...number(starts, setStarts)} placeholder="no limit" /></label>
        <Period ms={period} set={setPeriod} />
        <label class="confirm"><span>in a burst, at most</span><input {...number(burst, setBurst)} placeholder="all of them" disabled={!starts} /></label>
      </div>
    </Dialog>
  );
}
