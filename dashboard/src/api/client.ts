// Calls of /api/v1. What fails is a Problem, which says it in words of the server.

import { signal } from '@preact/signals';

/** What a call was answered with when it was refused or failed: RFC 9457. */
export class Problem extends Error {
  constructor(
    /** The HTTP status; 0 when nothing answered. */
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly requestId: string | null = null,
    /** Seconds. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail || title);
  }
}

/** Counts the answers that said: log in. The session is asked for anew. */
export const refused = signal(0);

const base = new URL('api/v1/', document.baseURI);
const TIMEOUT_MS = 20_000;

export const address = (path: string): string => new URL(path, base).href;

/** A path of segments, each escaped. */
export const path = (...segments: (string | number)[]): string => segments.map(segment => encodeURIComponent(segment)).join('/');

/** `path?a=b` of what has a value. */
export function query(path: string, values: Record<string, string | number | null | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return set.length ? `${path}?${new URLSearchParams(set.map(([key, value]) => [key, String(value)]))}` : path;
}

interface Raw {
  rawJSON?(text: string): unknown;
  isRawJSON?(value: unknown): value is { rawJSON: string };
  parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown;
}

const json = JSON as unknown as Raw;

/** What a user wrote. Numbers that JavaScript writes in another way, as `1.0`, stay as they are written where the browser can do that. */
export const parse = (text: string): unknown => json.parse(text, (_, value, context) => {
  const source = context?.source;
  return typeof value === 'number' && source && source !== String(value) && json.rawJSON ? json.rawJSON(source) : value;
});

export const isRaw = (value: unknown): value is { rawJSON: string } => json.isRawJSON?.(value) ?? false;

/** Whether one of its numbers may be another than was written: the browser kept none as it was, and only whole ones up to 2^53 are sure. */
export function mayBeRounded(value: unknown): boolean {
  if (json.rawJSON) return false;
  return typeof value === 'number' ? !Number.isSafeInteger(value) : typeof value === 'object' && value !== null && Object.values(value).some(mayBeRounded);
}

const OF_USERS = ['args', 'checkpoint', 'meta', 'result'];

/** An answer: what users wrote stays as it is written, all other numbers are there to be counted with. */
export const read = (text: string): unknown => figures(parse(text));

function figures(value: unknown): unknown {
  if (isRaw(value)) return Number(value.rawJSON);
  if (typeof value === 'object' && value) {
    const of = value as Record<string, unknown>;
    for (const key in of) if (!OF_USERS.includes(key)) of[key] = figures(of[key]);
  }
  return value;
}

/** A problem as the server writes it. */
export function problemOf(said: Record<string, unknown>, status = 0, title = '', wait: number | null = null): Problem {
  const text = (key: string): string => (typeof said[key] === 'string' ? said[key] : '');
  // What the detail says already is not said twice.
  const errors = Array.isArray(said['errors']) ? (said['errors'] as { pointer?: string; detail?: string }[]).filter(error => !text('detail').includes(error.detail ?? '')) : [];
  const pointed = errors.map(error => [error.pointer, error.detail].filter(Boolean).join(' '));
  const detail = [text('detail'), ...pointed].filter(Boolean).join('; ');
  return new Problem(Number(said['status']) || status, text('code'), text('title') || title, detail, text('request_id') || null, wait);
}

async function problem(response: Response): Promise<Problem> {
  const wait = Number(response.headers.get('retry-after')) || null;
  const title = `${response.status} ${response.statusText}`.trim();
  try {
    return problemOf((await response.json()) as Record<string, unknown>, response.status, title, wait);
  } catch {
    return new Problem(response.status, '', title, 'the answer is not from Windlass; a proxy in between may have given it', null, wait);
  }
}

async function send(method: string, path: string, body: unknown, signal: AbortSignal | undefined): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const init: RequestInit = { method, signal: signal ? AbortSignal.any([signal, timeout]) : timeout, headers: { accept: 'application/json' } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'content-type': 'application/json' };
  }
  try {
    return await fetch(address(path), init);
  } catch (error) {
    if (signal?.aborted) throw error;
    const late = error instanceof DOMException && error.name === 'TimeoutError';
    const why = late ? `no answer within ${TIMEOUT_MS / 1000} s` : 'it may be stopped, or the way to it is broken';
    throw new Problem(0, 'unreachable', 'The server does not answer', why);
  }
}

/** Calls and reads the answer; an answer without a body is undefined. */
export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal);
  if (!response.ok) {
    const wrong = await problem(response);
    if (wrong.status === 401 && path !== 'session') refused.value++;
    throw wrong;
  }
  const text = await response.text();
  return (text ? read(text) : undefined) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => call<T>('GET', path, undefined, signal);

export const asProblem = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, 'page', 'This page made a mistake', error instanceof Error ? error.message : String(error));
