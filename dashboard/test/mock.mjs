// A server that answers as `windlass serve` does by the contract, from sample data in memory: for tests, and to work on the pages
// without a store.
//
//   node test/mock.mjs [PORT]        http://127.0.0.1:7411/, figures move every second; role with ROLE=viewer

import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { check, Refusal, route } from './mock/api.mjs';
import { random, sample } from './mock/data.mjs';

const assets = join(dirname(fileURLToPath(import.meta.url)), '../../crates/windlass-server/assets');
/** What the product sends; the strictest that its pages have to work under. */
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/** A number of the sample data that is sent as it is written here: JavaScript would send `1.0` as 1. */
export const written = text => `as written: ${text}`;

const toJson = data => JSON.stringify(data)?.replaceAll(/"as written: ([^"]+)"/g, '$1');

class Mock {
  constructor(options) {
    const { base = '/', role = 'admin', readOnly = false, token = null, actor = 'l.haddad', store = sample() } = options;
    Object.assign(this, { base, role, readOnly, token, actor, store, streams: new Set(), calls: [], faults: new Map(), lost: new Map(), stream: true, still: false, held: new Map() });
    this.timers = new Set();
  }

  /** Every call whose path begins so fails with this status from now on; 0 breaks the connection. */
  fail(path, status) {
    this.faults.set(path, status);
    if (path === 'live') this.hangUp();
  }

  /** Does what is asked for at this path, but its answer is lost, so many times: a proxy answers with this status in its place; 0 breaks the connection. */
  lose(path, status, times = Infinity) {
    this.lost.set(path, { status, times });
  }

  /** Holds answers of this path back, as they were when they were asked for, until the function that it returns is called. */
  hold(path) {
    let release;
    this.held.set(path, new Promise(resolve => (release = resolve)));
    return () => {
      this.held.delete(path);
      release();
    };
  }

  heal() {
    this.faults.clear();
  }

  hangUp() {
    for (const stream of this.streams) stream.response.destroy();
  }

  /** Sends every stream what it watches. */
  push() {
    for (const { response, topics } of this.streams) {
      for (const topic of topics) response.write(this.frame(topic));
    }
  }

  /** As the server writes it: the event is the sort of topic, a look that failed is a problem. */
  frame(topic) {
    const [kind, ...name] = topic.split(':');
    const folder = { queue: 'queues', job: 'jobs' }[kind] ?? kind;
    const { answer, stars } = route('GET', name.length ? `${folder}/${encodeURIComponent(name.join(':'))}` : folder);
    try {
      return `event: ${kind}\ndata: ${toJson(answer(this, stars, undefined, {})[1])}\n\n`;
    } catch (error) {
      return `event: problem\ndata: ${JSON.stringify({ topic, status: error.status, code: error.code, title: error.title, detail: error.message })}\n\n`;
    }
  }

  /** Goes through the jobs of a bulk change in ten steps; not while `still` is set. */
  run(bulk, each) {
    const size = Math.ceil(bulk.chosen.length / 10);
    const timer = setInterval(() => {
      if (bulk.state === 'running' && this.still) return;
      if (bulk.state === 'running') bulk.chosen.splice(0, size).forEach(each);
      if (!bulk.chosen.length && bulk.state === 'running') bulk.state = 'done';
      if (bulk.state !== 'running') clearInterval(timer);
      this.push();
    }, 15);
    this.timers.add(timer);
  }

  async answer(request, response) {
    const url = new URL(request.url, 'http://mock');
    if (!url.pathname.startsWith(this.base)) return void response.writeHead(404).end();
    const path = url.pathname.slice(this.base.length);
    if (path.startsWith('api/v1/')) return this.call(request, response, path.slice(7), url);
    this.file(response, path);
  }

  file(response, path) {
    const known = JSON.parse(readFileSync(join(assets, 'manifest.json'), 'utf8')).find(file => file.path === path && path !== 'index.html');
    const headers = { 'content-security-policy': CSP, 'x-content-type-options': 'nosniff' };
    if (known) return void response.writeHead(200, { ...headers, 'content-type': known.type }).end(readFileSync(join(assets, path)));
    const page = readFileSync(join(assets, 'index.html'), 'utf8').replace('<base href="/">', `<base href="${this.base}">`);
    response.writeHead(200, { ...headers, 'content-type': 'text/html; charset=utf-8' }).end(page);
  }

  async call(request, response, path, url) {
    const fault = [...this.faults].find(([start]) => path.startsWith(start))?.[1];
    if (fault === 0) return void request.socket.destroy();
    let body = '';
    for await (const part of request) body += part;
    this.calls.push({ method: request.method, path: decodeURIComponent(path), query: Object.fromEntries(url.searchParams), text: body, body: body && JSON.parse(body) });
    try {
      if (fault) throw new Refusal(fault, 'unavailable', 'Service unavailable', 'the store does not answer; it may be starting');
      const known = !this.token || (request.headers.cookie ?? '').includes('windlass_session=s1');
      if (path === 'live') return this.live(response, url, known);
      const { role, answer, stars } = route(request.method, path);
      check(this, role, known);
      const [status, data, headers] = answer(this, stars, body && JSON.parse(body), Object.fromEntries(url.searchParams), known);
      const text = toJson(data);
      await this.held.get(path);
      this.write(response, path, status, { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers }, text);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const problem = { type: `/problems/${error.code}`, title: error.title, status: error.status, detail: error.message, code: error.code, request_id: `r-${this.calls.length}` };
      this.write(response, path, error.status, { 'content-type': 'application/problem+json' }, JSON.stringify(problem));
    }
  }

  write(response, path, status, headers, text) {
    const lost = this.lost.get(path);
    if (!lost || lost.times-- <= 0) response.writeHead(status, headers).end(text);
    else if (lost.status) response.writeHead(lost.status, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>');
    else response.destroy();
  }

  live(response, url, known) {
    check(this, 'viewer', known);
    if (!this.stream) throw new Refusal(404, 'not_found', 'Not found', 'no stream here');
    const stream = { response, topics: (url.searchParams.get('topics') ?? '').split(',').filter(Boolean) };
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('retry: 200\n\n');
    this.streams.add(stream);
    response.on('close', () => this.streams.delete(stream));
    this.push();
  }
}

/** Starts it on a free port; `url` is where, `close` ends it. */
export async function serve({ port = 0, ...options } = {}) {
  const mock = new Mock(options);
  const server = createServer((request, response) => mock.answer(request, response).catch(error => {
    console.error(error);
    response.destroy();
  }));
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  mock.url = `http://127.0.0.1:${server.address().port}${mock.base}`;
  mock.close = () => new Promise(resolve => {
    mock.timers.forEach(clearInterval);
    server.close(resolve);
    server.closeAllConnections();
  });
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!existsSync(join(assets, 'manifest.json'))) throw new Error('nothing is built; run node build.mjs first');
  const mock = await serve({ port: Number(process.argv[2] ?? 7411), role: process.env.ROLE });
  const rand = random(3);
  const near = (n, part) => Math.max(0, n * (1 + (rand() - 0.5) * part));
  setInterval(() => {
    for (const queue of mock.store.queues) {
      queue.rate.claimed = near(queue.rate.claimed, 0.05);
      queue.available = Math.round(near(queue.available, 0.02));
    }
    mock.push();
  }, 1_000);
  console.log(mock.url);
}
