// Doing something: says what came of it, and when it was refused, why.

import { signal } from '@preact/signals';
import { asProblem, call } from './api/client';
import { refreshAll } from './api/live';
import { say, tell } from './parts/Say';

/** Whether something is being done; buttons wait meanwhile. */
export const busy = signal(false);

/** Does it, and says `done`, or what `done` makes of the answer. Whether it worked. */
export async function act<T>(method: string, path: string, done: string | ((answer: T) => string), body?: unknown): Promise<boolean> {
  if (busy.peek()) return false;
  busy.value = true;
  try {
    const answer = await call<T>(method, path, body);
    const text = typeof done === 'string' ? done : done(answer);
    tell(text);
    refreshAll();
    return true;
  } catch (error) {
    const problem = asProblem(error);
    tell(`${problem.title}: ${problem.detail}`, true);
    say('');
    return false;
  } finally {
    busy.value = false;
  }
}

/** What the store says became of one job. */
export const REPLIES: Record<string, string> = {
  retried: 'Available now',
  pending: 'It was waiting for a worker already; left alone',
  key_taken: 'Left alone: another job has its unique key now',
  cancelled: 'Cancelled',
  running: 'A worker holds it',
  finished: 'It had ended before; left alone',
  deleted: 'Deleted',
  completed: 'It completed; left alone',
  edited: 'Changed',
  expires: 'Left alone: it expires before then',
  encrypted: 'Left alone: its args are encrypted',
  attempts_used: 'Left alone: it was tried as often',
  not_found: 'No such job any more',
};

export const reply = (answer: { reply: string }): string => REPLIES[answer.reply] ?? answer.reply;
