// Who looks, and what they may do. What somebody may not do is not shown.

import { effect, signal } from '@preact/signals';
import { asProblem, call, get, refused, type Problem } from './api/client';
import type { Role, Session } from './api/schema';
import { tell } from './parts/Say';

export const session = signal<Session | undefined>(undefined);
export const sessionProblem = signal<Problem | undefined>(undefined);

/** Whether somebody who is known wants to log in as somebody else. */
export const another = signal(false);

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };
const SIGNED_IN = 'windlass.signed-in';

export async function loadSession(): Promise<void> {
  try {
    session.value = await get<Session>('session');
    sessionProblem.value = undefined;
  } catch (error) {
    sessionProblem.value = asProblem(error);
  }
}

// An answer "log in" means that the session ended meanwhile.
effect(() => {
  if (refused.value) void loadSession();
});

/** Whether whoever looks may change what asks for this role. */
export function may(role: 'operator' | 'admin'): boolean {
  const who = session.value;
  return !!who?.role && !who.read_only && RANK[who.role] >= RANK[role];
}

/** Whether whoever looks may see what asks for this role; looking is fine where nothing may be changed. */
export function sees(role: Role): boolean {
  const who = session.value;
  return !!who?.role && RANK[who.role] >= RANK[role];
}

export async function logIn(token: string): Promise<void> {
  await call('POST', 'session', { token });
  remember(true);
  another.value = false;
  await loadSession();
}

/** The address that a server of this machine prints at its start has a key, good once; it does not stay in the address. */
export async function enter(): Promise<void> {
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (key === undefined) return loadSession();
  history.replaceState(null, '', location.pathname + location.search);
  try {
    await logIn(key);
  } catch (error) {
    tell(`The key in that address does not open this server: ${asProblem(error).message}. It is good once, and for ten minutes; a restart of the server prints another`, true);
    await loadSession();
  }
}

export async function logOut(): Promise<void> {
  await call('DELETE', 'session');
  remember(false);
  await loadSession();
}

/** Whether this browser logged in, so that logging out means something. */
export function loggedIn(): boolean {
  try {
    return localStorage.getItem(SIGNED_IN) !== null;
  } catch {
    return true;
  }
}

function remember(signedIn: boolean): void {
  try {
    if (signedIn) localStorage.setItem(SIGNED_IN, '1');
    else localStorage.removeItem(SIGNED_IN);
  } catch {
    // it only hides a button
  }
}
