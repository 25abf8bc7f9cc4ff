// What time it is by the server's clock, second by second: times of jobs are the store's, and this machine's clock may be wrong.

import { computed, signal } from '@preact/signals';
import { attentive } from './api/attention';

const here = signal(Date.now());
const ahead = signal(0);

/** Milliseconds since 1970. */
export const now = computed(() => here.value + ahead.value);

/** Says what time it is there. Differences below two seconds are the way of the answer. */
export function setClock(at: string): void {
  const difference = Date.parse(at) - Date.now();
  if (Math.abs(difference - ahead.peek()) > 2_000) ahead.value = Math.abs(difference) > 2_000 ? difference : 0;
}

setInterval(() => {
  if (attentive.peek()) here.value = Date.now();
}, 1_000);
