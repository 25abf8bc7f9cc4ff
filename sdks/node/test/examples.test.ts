import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Windlass } from 'windlass'
import { sendMail } from '../examples/jobs.js'
import { postgres, postgresUrl, sqliteUrl } from './support.js'

const run = promisify(execFile)
const built = (name: string) => new URL(`../examples/${name}.js`, import.meta.url).pathname
const sources = new URL('../../examples/', import.meta.url)

/** What each example prints. */
const PRINTS: Record<string, string> = {
  enqueue: 'available null\n',
  outcomes: 'Error: no route\nscheduled\nretryable\ncancelled\ndiscarded\nretryable\ncompleted\n',
  batch: '990 10\n',
  progress: '4 parts\n2 4\n',
  manage: '2 null 2 2 mail 1\n',
  schedules: '3 mail.send\n',
  events: 'enqueued true true\ncancelled true true\n0 604800000 1 0\n',
  encryption: "[ 'windlass.enc' ] { name: 'Ada', passport: 'C01X00T47' } opened for Ada\n",
  threads: '7@64.png\n',
}

for (const [name, out] of Object.entries(PRINTS)) {
  test(`the example ${name} runs`, async t => {
    const env = { ...process.env, WINDLASS_STORE: sqliteUrl(t) }
    assert.equal((await run(process.execPath, [built(name)], { env, timeout: 60_000 })).stdout, out)
  })
}

test('the example worker works until it is asked to end', async t => {
  const url = sqliteUrl(t)
  const child = spawn(process.execPath, [built('worker')], { env: { ...process.env, WINDLASS_STORE: url }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const windlass = new Windlass(url)
  t.after(() => windlass.close())
  await windlass.migrate()
  await windlass.enqueue(sendMail, { to: 'you@example.com' })
  const [line] = await once(child.stdout, 'data')
  child.kill('SIGTERM')
  assert.deepEqual([String(line), await once(child, 'exit')], ['mail to you@example.com\n', [0, null]])
})

test('the example nest works jobs until it is asked to end', async t => {
  const child = spawn(process.execPath, [built('nest')], { env: { ...process.env, WINDLASS_STORE: sqliteUrl(t) }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  child.kill('SIGTERM')
  // Nest ends the process by the signal that it got, when it is done.
  assert.deepEqual([String(line), await once(child, 'exit')], ['mail to you@example.com attempt 1\n', [null, 'SIGTERM']])
})

test('the example server enqueues and works until it is asked to end', async t => {
  const child = spawn(process.execPath, [built('server')], { env: { ...process.env, WINDLASS_STORE: sqliteUrl(t), PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const url = /^listens at (\S+)$/.exec((await lines.next()).value!)![1]!
  const post = (email: string) => fetch(`${url}/users`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ email }) })
  const answer = await post('you@example.com')
  const { job } = await answer.json() as { job: number }
  assert.deepEqual([answer.status, (await lines.next()).value], [202, 'mail to you@example.com'])
  assert.ok(['running', 'completed'].includes(((await (await fetch(`${url}/jobs/${job}`)).json()) as { state: string }).state))
  assert.deepEqual([(await post('nobody')).status, (await fetch(`${url}/jobs/4711`)).status], [400, 404])
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
})

const server = postgres()
test('the example transaction runs (PostgreSQL)', { skip: server === null }, async () => {
  const url = postgresUrl(server!)
  const env = { ...process.env, WINDLASS_STORE: url, DATABASE_URL: server!, WINDLASS_SCHEMA: url.split('=')[1] }
  assert.equal((await run(process.execPath, [built('transaction')], { env, timeout: 60_000 })).stdout, 'completed available LeaseLost\n')
})

for (const page of ['../../../../docs/typescript.md', '../../README.md']) {
  test(`every example of ${page.split('/').at(-1)} is part of a file that is run here`, () => {
    const dedented = (text: string) => text.split('\n').map(line => line.trim()).filter(line => line !== '').join('\n')
    const files = readdirSync(sources).map(name => dedented(readFileSync(new URL(name, sources), 'utf8')))
    const blocks = [...readFileSync(new URL(page, import.meta.url), 'utf8').matchAll(/```ts\n([^]*?)```/g)].map(([, block]) => block!)
    assert.ok(blocks.length > 0)
    for (const block of blocks) assert.ok(files.some(file => file.includes(dedented(block))), `in no example:\n${block}`)
  })
}

test('the example middleware runs', async t => {
  const { stdout } = await run(process.execPath, [built('middleware')], { env: { ...process.env, WINDLASS_STORE: sqliteUrl(t) }, timeout: 60_000 })
  assert.match(stdout, /^in job fails\nfails retry after \d+ ms\ndead: fails Error: no route\n$/)
})

test('every example is run by a test', () => {
  const names = readdirSync(sources).map(name => name.replace(/\.ts$/, ''))
  assert.deepEqual(names.sort(), [...Object.keys(PRINTS), 'jobs', 'middleware', 'nest', 'resize', 'server', 'sign_up.test', 'transaction', 'worker'].sort())
})
