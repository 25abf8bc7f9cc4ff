// What the caller asks for, from the environment, and the versions that answer.
import { readFileSync } from 'node:fs';

/** A count from the environment; `fallback` when unset, an error when neither is there. */
export function count(name, fallback) {
  const text = process.env[name];
  if (text === undefined || text === '') {
    if (fallback === undefined) throw new Error(`${name} is not set: this scenario needs it`);
    return fallback;
  }
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`${name}=${text}: want a whole number, 0 or more`);
  return value;
}

/** As `count`, and at least 1. */
export function positive(name, fallback) {
  const value = count(name, fallback);
  if (value === 0) throw new Error(`${name}=0: want 1 or more`);
  return value;
}

export function url() {
  const text = process.env.BENCH_URL;
  if (!text) throw new Error('BENCH_URL is not set: give the URL of an empty database');
  return text;
}

/** The version of a package as installed. */
export function versionOf(packageName) {
  const file = `${process.env.PEERS_HOME}/node/node_modules/${packageName}/package.json`;
  return JSON.parse(readFileSync(file, 'utf8')).version;
}
