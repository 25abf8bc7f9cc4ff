// What to change of many jobs; how many they are is asked next, and nothing is changed before that is confirmed.

import { useState } from 'preact/hooks';
import { isDead } from '../filter';
import type { JobState } from '../api/schema';
import { Dialog } from './Dialog';
import { edited, EditFields, UNCHANGED } from './EditFields';

export function EditMany({ state, close, preview }: { state: JobState | undefined; close(): void; preview(edit: Record<string, unknown>): void }) {
  const [fields, setFields] = useState(UNCHANGED);
  const edit = edited(fields, UNCHANGED), some = Object.keys(edit).length > 0;
  return (
    <Dialog title="Edit jobs" close={close} submit={() => some && preview(edit)} note="What is empty stays as it is" verb="Preview…" ready={some}>
      <EditFields fields={fields} change={setFields} timed={!isDead(state)} />
    </Dialog>
  );
}
