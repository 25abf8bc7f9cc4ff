import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { Windlass, type Worker } from 'windlass'

/** A store of its own for one test. */
export interface Store { windlass: Windlass, url: string, name: 'SQLite' | 'PostgreSQL' }

/** How long a test may wait for what has to come. */
export const LONG = '60s'

export function sqliteUrl (t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return `sqlite:${folder}/jobs.db?synchronous=normal`
}

/** The URL of the server that scripts/with-postgres starts; null where tests may be left out. */
export function postgres (): string | null {
  const url = process.env.WINDLASS_TEST_POSTGRES
  if (url || process.env.WINDLASS_ALLOW_SKIP) return url ?? null
  throw new Error('WINDLASS_TEST_POSTGRES is not set: run the tests by `make test-node` or inside scripts/with-postgres, or set WINDLASS_ALLOW_SKIP=1')
}

/** The same with a schema of Windlass of its own. */
export function postgresUrl (server: string): string {
  return `${server}?schema=node_${randomUUID().replaceAll('-', '')}`
}

export async function open (t: TestContext, url: string, name: Store['name'] = 'SQLite'): Promise<Store> {
  const windlass = new Windlass(url)
  t.after(() => windlass.close())
  await windlass.migrate()
  return { windlass, url, name }
}

/** A test on a SQLite file. */
export function onSqlite (name: string, body: (store: Store, t: TestContext) => Promise<void>): void {
  test(name, async t => body(await open(t, sqliteUrl(t)), t))
}

/** A test on PostgreSQL. */
export function onPostgres (name: string, body: (store: Store, t: TestContext) => Promise<void>): void {
  const server = postgres()
  test(`${name} (PostgreSQL)`, { skip: server === null }, async t => body(await open(t, postgresUrl(server!), 'PostgreSQL'), t))
}

/** The same test on both stores. */
export function onBoth (name: string, body: (store: Store, t: TestContext) => Promise<void>): void {
  onSqlite(name, body)
  onPostgres(name, body)
}

/** Starts a worker that is closed at the end of the test. */
export async function started (t: TestContext, worker: Worker): Promise<Worker> {
  await worker.start()
  t.after(() => worker.close())
  return worker
}

/** Something that a test waits for. */
export class Signal<T = void> {
  readonly promise: Promise<T>
  fire!: (value: T) => void
  constructor () { this.promise = new Promise(resolve => { this.fire = resolve }) }
}

/** The record of a job that ended. */
export async function ended (windlass: Windlass, id: number) {
  assert.ok(await windlass.wait(id, LONG), `job ${id} does not end`)
  return (await windlass.job(id))!
}
