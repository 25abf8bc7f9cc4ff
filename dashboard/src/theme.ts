// Light or dark: the choice that was stored, else the system's.

export type Theme = 'light' | 'dark';

const KEY = 'windlass.theme';

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden
  }
}

export function preferred(): Theme {
  const choice = stored();
  if (choice === 'dark' || choice === 'light') return choice;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** The other theme from now on; its name. */
export function toggleTheme(): Theme {
  const root = document.documentElement;
  const next: Theme = root.dataset['theme'] === 'dark' ? 'light' : 'dark';
  root.dataset['theme'] = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // it lasts as long as this page, then
  }
  return next;
}
