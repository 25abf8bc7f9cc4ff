// The real server: `windlass serve` over a store of its own, on a free port of this machine, with a token for each role.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { open } from './browser.mjs';

const run = promisify(execFile);
/** Set by scripts/test-dashboard. */
const windlass = process.env.WINDLASS_COMMAND;
const postgres = process.env.WINDLASS_TEST_POSTGRES;
const ROLES = ['viewer', 'operator', 'admin', 'worker'];
const START_MS = 30_000;
/** Ports that no system gives to whoever asks for any, so that one is still free when its server comes back. */
const PORTS = [20_000, 32_000];
const TAKEN = /Address already in use/;
const MOST_TRIES = 40;

const assets = fileURLToPath(new URL('../../crates/windlass-server/assets/', import.meta.url));
/** The script that the pages have, by its hashed name. */
const script = JSON.parse(readFileSync(join(assets, 'manifest.json'), 'utf8')).find(({ path }) => /^app-.*\.js$/.test(path)).path;

/** What was started and has not ended; none of it outlives this process. */
const running = new Set();
process.on('exit', () => running.forEach(child => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/** A program, and when it ended. */
function start(args, options) {
  const child = spawn(windlass, args, { ...options, env: { ...process.env, WINDLASS_LOG: 'warn' } });
  running.add(child);
  child.ended = new Promise(resolve => child.once('close', resolve)).then(() => running.delete(child));
  child.said = '';
  child.complained = '';
  child.stdout.setEncoding('utf8').on('data', text => (child.said += text));
  child.stderr.setEncoding('utf8').on('data', text => (child.complained += text));
  return child;
}

async function stop(child) {
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), START_MS);
  await child.ended;
  clearTimeout(late);
}

class Server {
  constructor(store, folder) {
    Object.assign(this, { store, folder, tokens: {}, children: [] });
  }

  /** What a command says as JSON. */
  async cli(...args) {
    const { stdout } = await run(windlass, [...args, '--store', this.store, '--json']);
    return stdout ? JSON.parse(stdout) : undefined;
  }

  /** One request, as the admin if nobody else is named: the status and what is in the body. */
  async ask(method, path, body, role = 'admin') {
    const answer = await fetch(`${this.url}${path}`, { method, headers: { authorization: `Bearer ${this.tokens[role]}`, ...(body && { 'content-type': 'application/json' }) }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, body: text && JSON.parse(text) };
  }

  /** The same of the API, which has to be answered well. */
  async api(method, path, body, role) {
    const answer = await this.ask(method, `api/v1/${path}`, body, role);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  job(id) {
    return this.api('GET', `jobs/${id}`);
  }

  /** Enqueues these, and has their ids. */
  async enqueue(...jobs) {
    return (await this.api('POST', 'jobs', { jobs })).ids;
  }

  /** A call of an HTTP worker. */
  async work(path, body) {
    const answer = await this.ask('POST', `work/v1/workers${path}`, body, 'worker');
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** `windlass work` with these options; it ends with the server, or by the function that comes back. */
  worker(...args) {
    const child = start(['work', '--store', this.store, ...args], { cwd: this.folder });
    this.children.push(child);
    return () => stop(child);
  }

  /** A token for each role, and the file that says so. */
  async access() {
    const file = join(this.folder, 'auth.toml');
    const made = await Promise.all(ROLES.map(role => this.cli('token', `the-${role}`, '--role', role)));
    for (const { role, token } of made) this.tokens[role] = token;
    writeFileSync(file, made.map(({ name, role, sha256 }) => `[[token]]\nname = "${name}"\nrole = "${role}"\nsha256 = "${sha256}"\n`).join(''), { mode: 0o600 });
    return ['--auth', file];
  }

  /** Starts it at this port, or else at a free one. */
  async serve(options, port) {
    for (let tries = 1; ; tries++) {
      try {
        return await this.listen(options, port ?? randomInt(...PORTS));
      } catch (error) {
        if (tries === MOST_TRIES || !TAKEN.test(error.message)) throw error;
        await sleep(250);
      }
    }
  }

  async listen(options, port) {
    const child = start(['serve', '--json', '--listen', `127.0.0.1:${port}`, ...options, '--store', this.store]);
    this.children.push(child);
    const { url, login } = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server is not there after ${START_MS} ms: ${child.said}${child.complained}`)), START_MS);
      void child.ended.then(() => {
        clearTimeout(late);
        reject(new Error(`the server ended: ${child.said}${child.complained}`));
      });
      child.stdout.on('data', () => {
        if (!child.said.trimEnd().endsWith('}')) return;
        clearTimeout(late);
        resolve(JSON.parse(child.said));
      });
    });
    Object.assign(this, { url, login });
    if (!(await (await fetch(url)).text()).includes(script)) throw new Error(`the pages of ${windlass} are others than ${assets} has; build it anew`);
    /** Stops it; what comes back starts it again where it was. */
    this.halt = async () => {
      await stop(child);
      return () => this.serve(options, new URL(url).port);
    };
  }

  async close() {
    await Promise.all(this.children.map(stop));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A server of a new store, which is of this kind; with `options` in place of the file that says who may do what. */
export async function serveReal(kind, options) {
  if (!windlass) throw new Error('WINDLASS_COMMAND is not set; run scripts/test-dashboard');
  const folder = mkdtempSync(join(tmpdir(), 'windlass-pages-'));
  const store = kind === 'sqlite' ? `sqlite:${join(folder, 'jobs.db')}` : `${postgres}?schema=pages_${randomUUID().replaceAll('-', '')}`;
  const server = new Server(store, folder);
  try {
    await server.cli('migrate');
    await server.serve(options ?? await server.access());
    return server;
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** The stores that the tests run over. */
export const STORES = postgres ? ['sqlite', 'postgres'] : ['sqlite'];

/** Runs `tests` over a server of each store; `real.server` is there as soon as a test runs. */
export function overStores(tests, fill = () => undefined) {
  for (const kind of STORES) {
    const real = { kind };
    before(async () => {
      real.server = await serveReal(kind);
      real.stock = await fill(real.server);
    });
    after(() => real.server?.close());
    tests(real, (name, body) => test(`${name} (${kind})`, body));
  }
}

/** A page of the server for somebody of this role; for nobody in particular without one. */
export function visit(t, server, { path = '', role = 'admin', ...options } = {}) {
  return open(t, { ...options, mock: server, path: role ? `${path}#key=${server.tokens[role]}` : path });
}
