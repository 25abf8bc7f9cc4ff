// Limits of the keys of a queue: of each key, of a single one, or of one that is named here. Empty fields take a limit away.

import { useState } from 'preact/hooks';
import { act } from '../act';
import { path } from '../api/client';
import type { KeyLimit } from '../api/schema';
import { Dialog } from './Dialog';
import { number, Period } from './EditLimits';

/** What is changed: the limits of this key, of a key that is yet to be named (`''`), or of each key (`null`). */
export interface OfKey {
  queue: string;
  of: string | null;
  limit: KeyLimit | null;
  close(): void;
  reload(): void;
}

const address = (queue: string, key: string | null): string => path('queues', queue, 'key-limits', ...(key === null ? [] : [key]));

export function EditKeyLimit({ queue, of, limit, close, reload }: OfKey) {
  const [key, setKey] = useState(of);
  const [atOnce, setAtOnce] = useState(String(limit?.concurrency ?? ''));
  const [serial, setSerial] = useState(limit?.serial ?? false);
  const [starts, setStarts] = useState(String(limit?.rate?.count ?? ''));
  const [period, setPeriod] = useState(limit?.rate?.period_ms ?? 1_000);
  const [weight, setWeight] = useState(String(limit?.weight ?? 1));
  const save = async (): Promise<void> => {
    const body = {
      ...(serial ? { serial } : atOnce && { concurrency: Number(atOnce) }),
      ...(starts && { rate: { count: Number(starts), period_ms: period } }),
      ...(weight && { weight: Number(weight) }),
    };
    if (!(await act('PUT', address(queue, key), key === null ? `Limits of the keys of ${queue} changed` : `Limits of key ${key} changed`, body))) return;
    reload();
    close();
  };
  return (
    <Dialog title={of === null ? `Limits of each key of ${queue}` : of ? `Limits of key ${of}` : `Limits of a key of ${queue}`} close={close} submit={save} note="Over all workers, from now on" verb={of === '' ? 'Add' : 'Change'}>
      {of === '' && <label class="confirm"><span>Key</span><input class="field mono" required maxLength={200} pattern="(?!\.{1,2}$).*" title="A browser cannot send the keys . and .. ; use windlass queues limit-keys" spellcheck={false} autocomplete="off" value={key ?? ''} onInput={event => setKey(event.currentTarget.value)} /></label>}
      <label class="row"><input type="checkbox" checked={serial} onChange={event => setSerial(event.currentTarget.checked)} />One after the other, in the order of their ids</label>
      <div class="fields">
        <label class="confirm"><span>Jobs at once</span><input {...number(serial ? '1' : atOnce, setAtOnce)} max={1_000_000} placeholder="no limit" disabled={serial} /></label>
        <label class="confirm"><span>Share beside other keys</span><input {...number(weight, setWeight)} max={1_000} placeholder="1" /></label>
      </div>
      <div class="fields">
        <label class="confirm"><span>Starts</span><input {...number(starts, setStarts)} placeholder="no limit" /></label>
        <Period ms={period} set={setPeriod} />
      </div>
    </Dialog>
  );
}

export function RemoveKeyLimit({ queue, of, close, reload }: OfKey) {
  const remove = async (): Promise<void> => {
    if (!(await act('DELETE', address(queue, of), of === null ? `The keys of ${queue} have no limits any more` : `Key ${of} has no limits of its own any more`))) return;
    reload();
    close();
  };
  return (
    <Dialog title={of === null ? `Remove all limits of the keys of ${queue}?` : `Remove the limits of key ${of}?`} close={close} submit={remove} verb="Remove them">
      <p>{of === null ? 'Its jobs run in the order of their arrival then, whatever their keys. The limits of single keys go, too.' : 'What holds for each key holds for it then.'}</p>
    </Dialog>
  );
}
