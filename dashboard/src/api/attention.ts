// Whether somebody looks, and wants updates. Nothing is asked for by itself while not both are so.

import { computed, signal } from '@preact/signals';

/** Whether the user wants updates. */
export const live = signal(true);
const seen = signal(document.visibilityState === 'visible');
document.addEventListener('visibilitychange', () => (seen.value = document.visibilityState === 'visible'));

export const attentive = computed(() => live.value && seen.value);
