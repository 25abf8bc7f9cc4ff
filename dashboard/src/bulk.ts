// Changes of many jobs at once: previewed, confirmed, then run by the server. Its progress is followed on every page, also after a reload.

import { signal } from '@preact/signals';
import type { BulkAction, BulkFilter, JobState } from './api/schema';

export type Target = { ids: string[] } | { filter: BulkFilter };

export interface Asked {
  action: BulkAction;
  target: Target;
  /** What is to be changed, of `edit`. */
  edit?: Record<string, unknown>;
}

export const VERBS: Record<BulkAction, { verb: string; doing: string; done: string }> = {
  retry: { verb: 'Retry', doing: 'Retrying', done: 'Retried' },
  cancel: { verb: 'Cancel', doing: 'Cancelling', done: 'Cancelled' },
  edit: { verb: 'Edit', doing: 'Editing', done: 'Edited' },
  delete: { verb: 'Delete', doing: 'Deleting', done: 'Deleted' },
};

/** Above this, the number has to be typed. */
export const TYPED_ABOVE = 100;

/** What makes sense for jobs of a state; for a mixture all does, and jobs that it does not fit are left alone. */
export function offers(state: JobState | undefined): BulkAction[] {
  switch (state) {
    case 'completed':
      return [];
    case 'running':
      return ['cancel'];
    case 'available':
    case 'scheduled':
      return ['edit', 'cancel', 'delete'];
    case 'cancelled':
    case 'discarded':
      return ['retry', 'edit', 'delete'];
    default:
      return ['retry', 'edit', 'cancel', 'delete'];
  }
}

const KEY = 'windlass.bulk';

function kept(): string[] {
  try {
    const ids: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
    return Array.isArray(ids) ? ids.filter(id => typeof id === 'string') : [];
  } catch {
    return [];
  }
}

/** The ids of the runs that are followed. */
export const runs = signal<readonly string[]>(kept());
/** Counts the runs that ended while they were followed: lists read themselves anew. */
export const ended = signal(0);

function keep(ids: readonly string[]): void {
  runs.value = ids;
  try {
    sessionStorage.setItem(KEY, JSON.stringify(ids));
  } catch {
    // a reload forgets it, then
  }
}

export const follow = (id: string): void => keep([...runs.peek().filter(other => other !== id), id]);
export const dismiss = (id: string): void => keep(runs.peek().filter(other => other !== id));
