// Many jobs at once: the bar of what is selected, and the question before anything is changed.

import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, call, get, path, problemOf, type Problem } from '../api/client';
import type { BulkAction, BulkPreview } from '../api/schema';
import { asText } from '../filter';
import { count, plural } from '../format';
import { follow, TYPED_ABOVE, VERBS, type Asked } from '../bulk';
import { Dialog } from './Dialog';
import { Icon, type IconName } from './Icon';
import { Failed, Loading } from './States';
import { Moment } from './Time';

const ICONS: Record<BulkAction, IconName> = { retry: 'retry', edit: 'settings', cancel: 'x', delete: 'stop' };
const KEYS: Partial<Record<BulkAction, string>> = { retry: 'r', cancel: 'c' };

interface BulkBarProps {
  selected: number;
  actions: readonly BulkAction[];
  /** Selects everything that the filter matches; `undefined` where there is no filter. */
  all: (() => void) | undefined;
  isAll: boolean;
  ask(action: BulkAction): void;
  clear(): void;
}

export function BulkBar({ selected, actions, all, isAll, ask, clear }: BulkBarProps) {
  return (
    <div class="bulk" role="region" aria-label="Selected jobs">
      <span class="bulk-n">
        <span class="nowrap">{isAll ? <b>All that match</b> : <><b>{count(selected)}</b> selected</>}</span>
        {isAll ? <button class="link nowrap" type="button" onClick={clear}>Select none</button> : all && <button class="link nowrap" type="button" onClick={all}>Select all that match</button>}
      </span>
      <span class="sep wide-only" />
      {actions.map(action => (
        <button key={action} class={action === 'retry' || action === 'edit' ? 'btn' : 'btn danger'} type="button" onClick={() => ask(action)}>
          <Icon name={ICONS[action]} />{VERBS[action].verb}…{KEYS[action] && <kbd aria-hidden="true">{KEYS[action]}</kbd>}
        </button>
      ))}
    </div>
  );
}

const PACES: [perSecond: number | undefined, name: string][] = [[undefined, 'as fast as it goes'], [1_000, '1,000 a second'], [100, '100 a second'], [10, '10 a second'], [1, '1 a second']];

const MEANS: Record<BulkAction, string> = {
  retry: 'They become available now; dead ones get their attempts anew. Jobs that run, wait or completed meanwhile are left alone.',
  cancel: 'They will not run. Those that run are told to stop. What ended meanwhile is left alone.',
  edit: 'What is not named stays as it is. Jobs that run or completed are left alone; dead ones, too, where a time is set.',
  delete: 'They are gone for good, with the errors of their attempts. Jobs that run or completed are left alone.',
};

const UNCHANGED = 'Nothing was changed';

/** How often it is looked how far a count is that takes long. */
const AGAIN_MS = 1_000;

export function BulkDialog({ asked: { action, target, edit }, close, started }: { asked: Asked; close(): void; started(): void }) {
  const [preview, setPreview] = useState<BulkPreview>();
  const [found, setFound] = useState(0);
  const [at, setAt] = useState('');
  const [failed, setFailed] = useState<{ what: string; problem: Problem }>();
  const [pace, setPace] = useState<number>();
  const [typed, setTyped] = useState('');
  const [sending, setSending] = useState(false);
  const [again, setAgain] = useState(0);
  const { verb } = VERBS[action];

  useEffect(() => {
    let gone = false, counting: string | undefined, timer: ReturnType<typeof setTimeout> | undefined;
    setPreview(undefined);
    setFound(0);
    setTyped('');
    const wrong = (problem: Problem): void => {
      if (!gone) setFailed({ what: UNCHANGED, problem });
    };
    const refused = (error: unknown): void => wrong(asProblem(error));
    // Nobody waits for it any more.
    const end = (): void => {
      if (counting) call('DELETE', counting).catch(() => {});
    };
    const show = (answer: BulkPreview): void => {
      const at = path('bulk', answer.id);
      counting = answer.state === 'counting' ? at : undefined;
      if (gone) return end();
      setFound(answer.count);
      if (counting) timer = setTimeout(() => void get<BulkPreview>(at).then(show, refused), AGAIN_MS);
      else if (answer.state !== 'previewed') wrong(problemOf({ title: 'Not counted', detail: answer.error ?? 'The count was stopped.' }));
      else {
        setPreview(answer);
        setFailed(undefined);
        setAt(new Date().toISOString());
      }
    };
    call<BulkPreview>('POST', 'bulk', { action, edit, ...target, ...(pace && { per_second: pace }) }).then(show, refused);
    return () => {
      gone = true;
      clearTimeout(timer);
      end();
    };
  }, [action, target, edit, pace, again]);

  // What is to be typed is where the keyboard is, as soon as it is asked for.
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [preview]);

  const must = preview && preview.count > TYPED_ABOVE;
  const ready = preview && preview.count > 0 && !sending && (!must || typed.replaceAll(',', '').trim() === String(preview.count));
  const confirm = async (): Promise<void> => {
    if (!preview || !ready) return;
    setSending(true);
    const at = path('bulk', preview.id);
    try {
      await call('POST', `${at}/confirm`, { count: preview.count });
    } catch (error) {
      // It may have begun all the same: an answer can be lost, and a browser then asks once more by itself, which is refused with 409.
      const problem = asProblem(error), { status } = problem;
      const run = await get<BulkPreview>(at).catch(() => undefined);
      if (!run || run.state === 'previewed') {
        const lost = status < 400 || status >= 500 || (status === 409 && !run);
        setFailed({ what: lost ? 'It is not known whether it began' : UNCHANGED, problem });
        return setSending(false);
      }
    }
    follow(preview.id);
    started();
  };
  const title = preview ? `${verb} ${plural(preview.count, 'job')}?` : `${verb} jobs?`;
  return (
    <Dialog title={title} close={close} submit={confirm} verb={preview ? `${verb} ${count(preview.count)}` : verb} ready={!!ready}>
      {failed && <Failed {...failed} again={() => { setFailed(undefined); setAgain(again + 1); }} />}
      {!preview && !failed && <Loading what={`how many there are${found ? `, ${count(found)} so far` : ''}`} />}
      {preview && <>
        <p>{'filter' in target ? <>All that match <code>{asText(target.filter)}</code></> : plural(target.ids.length, 'job', 'jobs')}{at && <>, counted at <Moment at={at} /></>}. {preview.exact ? 'No more than these many are touched.' : `More match than one change may touch: these are the first ${count(preview.count)}.`}</p>
        {preview.count === 0 ? <p class="strong">No job matches any more.</p> : <p>{MEANS[action]}</p>}
        {edit && <p class="strong">{Object.entries(edit).map(([name, value]) => <code key={name}>{name}: {String(value)} </code>)}</p>}
        {must && <div class="confirm"><label for="bulk-count">Type <b>{preview.count}</b> to confirm</label><input id="bulk-count" ref={field} class="field tab" inputMode="numeric" autocomplete="off" value={typed} onInput={event => setTyped(event.currentTarget.value)} /></div>}
        {preview.count > 1 && <label class="row wrap"><span>Pace</span><select class="field pace" value={pace ?? ''} onChange={event => { setPace(Number(event.currentTarget.value) || undefined); setPreview(undefined); }}>{PACES.map(([n, name]) => <option key={name} value={n ?? ''}>{name}</option>)}</select></label>}
      </>}
    </Dialog>
  );
}
