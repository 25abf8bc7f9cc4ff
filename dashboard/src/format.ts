// Figures and times as people read them.

export const count = (n: number): string => Math.round(n).toLocaleString('en-US');

/** 52.2k, 41.8M. */
export function short(n: number): string {
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']] as const) {
    // 999,999 rounds to 1M, not to 1000k.
    if (n < (letter === 'k' ? size : size * 0.9995)) continue;
    const scaled = n / (letter === 'k' ? 1e3 : size);
    return `${scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1).replace(/\.0$/, '')}${letter}`;
  }
  return count(n);
}

/** Per second: 4,812, 12, 3.1, 0.053. */
export const rate = (n: number): string => (n >= 100 ? count(n) : n >= 10 ? n.toFixed(0) : n >= 1 ? n.toFixed(1) : String(Number(n.toPrecision(2))));

export const percent = (part: number): string => (part === 0 ? '0' : `${(part * 100).toFixed(part < 0.1 ? 2 : 1)} %`);

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** What stands behind a figure of its own. */
export const jobs = (n: number): string => (n === 1 ? 'job' : 'jobs');

/** A number that may be an estimate. */
export const figure = (n: number, estimated: boolean, text: (n: number) => string = count): string => (estimated ? `≈ ${text(n)}` : text(n));

export function bytes(n: number): string {
  for (const [size, unit] of [[2 ** 40, 'TB'], [2 ** 30, 'GB'], [2 ** 20, 'MB'], [2 ** 10, 'kB']] as const) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${n} bytes`;
}

/** 18 ms, 1.2 s, 24 s, 9 m 40 s, 1 h 52 m, 3 d 4 h. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  const s = Math.round(ms / 1_000);
  const two = (n: number, big: string, rest: number, small: string): string => (rest ? `${n} ${big} ${rest} ${small}` : `${n} ${big}`);
  if (s < 60) return `${s} s`;
  if (s < 3_600) return two(Math.floor(s / 60), 'm', s % 60, 's');
  if (s < 86_400) return two(Math.floor(s / 3_600), 'h', Math.floor((s % 3_600) / 60), 'm');
  return two(Math.floor(s / 86_400), 'd', Math.floor((s % 86_400) / 3_600), 'h');
}

/** 100 per minute, 5 per 250 ms. */
export const perTime = (n: number, ms: number): string => `${count(n)} per ${ms === 1_000 ? 'second' : ms === 60_000 ? 'minute' : ms === 3_600_000 ? 'hour' : duration(ms)}`;

/** The same, in whole seconds: it changes every second, not with every frame. */
export const span = (ms: number): string => duration(Math.max(0, Math.floor(ms / 1_000)) * 1_000).replace(/^0 ms$/, '0 s').replace(/\.0 s$/, ' s');

const pad = (n: number, digits = 2): string => String(n).padStart(digits, '0');

/** 14:50:12 in the reader's time zone. */
export function clock(at: number | string, parts: 'minutes' | 'seconds' | 'millis' = 'seconds'): string {
  const date = new Date(at);
  const minutes = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  if (parts === 'minutes') return minutes;
  const seconds = `${minutes}:${pad(date.getSeconds())}`;
  return parts === 'millis' ? `${seconds}.${pad(date.getMilliseconds(), 3)}` : seconds;
}

const sameDay = (a: Date, b: Date): boolean => a.toDateString() === b.toDateString();
const day = (date: Date): string => date.toLocaleDateString('en-GB', { weekday: 'short', day: 'numeric', month: 'short' });

/** The time of today, with the day for other days. */
export function moment(at: number | string, now: number, parts: 'minutes' | 'seconds' | 'millis' = 'seconds'): string {
  const date = new Date(at);
  return sameDay(date, new Date(now)) ? clock(at, parts) : `${day(date)}, ${clock(at, parts === 'millis' ? 'seconds' : parts)}`;
}

/** What a title says: to the second, with the zone. */
export const exact = (at: string): string => `${at.replace('T', ' ').replace(/\.\d+/, '').replace('Z', '')} UTC`;
