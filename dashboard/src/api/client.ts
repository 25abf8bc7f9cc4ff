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
  isRawJSON?(value: unknown): boolean;
  parse(text: string, reviver: (key: string, value: unknown, context?: { source?: string }) => unknown): unknown;
}

/** Integers beyond 2^53 keep their digits where the browser can do that: args are shown and edited as they are. */
export function parse(text: string): unknown {
  const json = JSON as unknown as Raw;
  return json.parse(text, (_, value, context) => {
    const source = context?.source;
    const lost = typeof value === 'number' && source !== undefined && /^-?\d+$/.test(source) && !Number.isSafeInteger(value);
    return lost && json.rawJSON ? json.rawJSON(source) : value;
  });
}

export const isRaw = (value: unknown): boolean => (JSON as unknown as Raw).isRawJSON?.(value) ?? false;

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
  return (text ? parse(text) : undefined) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => call<T>('GET', path, undefined, signal);

export const asProblem = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, 'page', 'This page made a mistake', error instanceof Error ? error.message : String(error));
