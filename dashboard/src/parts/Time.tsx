// Times: how long ago, in how long, at what o'clock. The title always has the time in UTC.

import { now } from '../clock';
import { exact, moment, span } from '../format';

export function Ago({ at, word = ' ago' }: { at: string; word?: string }) {
  return <time dateTime={at} title={exact(at)}>{span(now.value - Date.parse(at))}{word}</time>;
}

/** `in 12 s`, or `due` when that is over. */
export function Until({ at }: { at: string }) {
  const left = Date.parse(at) - now.value;
  return <time dateTime={at} title={exact(at)}>{left > 0 ? `in ${span(left)}` : 'due'}</time>;
}

export function Moment({ at, parts }: { at: string; parts?: 'minutes' | 'seconds' | 'millis' }) {
  return <time dateTime={at} title={exact(at)}>{moment(at, now.value, parts)}</time>;
}
