// What happened, said once: to screen readers, and as a line at the bottom when something was done.

import { signal } from '@preact/signals';

const spoken = signal('');
const shown = signal<{ text: string; bad: boolean } | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

const SHOWN_MS = 6_000;

export function say(text: string): void {
  spoken.value = text;
}

/** Shows it for six seconds; what went wrong stays until it is closed. */
export function tell(text: string, bad = false): void {
  shown.value = { text, bad };
  clearTimeout(timer);
  if (!bad) timer = setTimeout(() => (shown.value = undefined), SHOWN_MS);
}

export function Say() {
  const toast = shown.value;
  return (
    <>
      <div class="vh" role="status" aria-live="polite" id="say">{spoken.value}</div>
      <div role={toast?.bad ? 'alert' : 'status'}>
        {toast && <div class="toast"><span>{toast.text}</span><button type="button" onClick={() => (shown.value = undefined)}>Close</button></div>}
      </div>
    </>
  );
}
