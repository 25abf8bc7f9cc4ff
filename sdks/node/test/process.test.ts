import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { open, sqliteUrl } from './support.js'

/** How long a child may take for what should take a moment. */
const PATIENCE = 60_000

/** A program of its own. It prints lines; `line` waits for one. */
function program (t: TestContext, url: string, body: string, env: Record<string, string | undefined> = {}) {
  const source = `import { addon } from ${JSON.stringify(new URL('../../dist/native.js', import.meta.url).href)}
    import { Windlass, defineJob } from ${JSON.stringify(import.meta.resolve('windlass'))}
    const windlass = new Windlass(process.env.URL), any = defineJob('any'), quiet = { queues: { default: 10 }, onError () {} }
    void addon; ${body}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], { env: { ...process.env, URL: url, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const ended = once(child, 'close', { signal: AbortSignal.timeout(PATIENCE) }) as Promise<[number | null, string | null]>
  let out = ''
  let waiting = () => {}
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => { out += text; waiting() })
  return {
    child,
    out: () => out,
    end: async () => { const [code, signal] = await ended; return { code: code ?? signal, out } },
    line: (text: string) => Promise.race([
      new Promise<void>(resolve => { waiting = () => { if (out.includes(text)) resolve() }; waiting() }),
      ended.then(() => { if (!out.includes(text)) throw new Error(`it ended without "${text}":\n${out}`) }),
    ]),
  }
}

test('an idle client keeps no process alive', async t => {
  const { code, out } = await program(t, sqliteUrl(t), `await windlass.migrate(); await windlass.enqueue(any, 1); console.log('done')`).end()
  assert.deepEqual([code, out], [0, 'done\n'])
})

test('an idle worker keeps its process alive until it is closed', async t => {
  const url = sqliteUrl(t)
  const { windlass } = await open(t, url)
  const { defineJob } = await import('windlass')
  const child = program(t, url, `await windlass.worker(quiet).handle(any, () => { console.log('worked'); setImmediate(close) }).start()
    console.log('started'); const worker = undefined; function close () {}`)
  await child.line('started')
  // Nothing but the bell keeps it: only a process that still lives works this.
  await windlass.enqueue(defineJob<unknown>('any'), 1)
  await child.line('worked')
  child.child.kill('SIGKILL')
  const closed = program(t, sqliteUrl(t), `const worker = await windlass.worker(quiet).handle(any, () => {}).start(); await worker.close(); console.log('closed')`)
  assert.deepEqual(await closed.end(), { code: 0, out: 'closed\n' })
})

test('a worker that cannot start keeps no process alive', async t => {
  const { code, out } = await program(t, sqliteUrl(t), `await windlass.worker({ queues: { 'bad queue': 1 } }).handle(any, () => {}).start().catch(error => console.log(error.name))`).end()
  assert.deepEqual([code, out], [0, 'InvalidOption\n'])
})

test('require works, too', async t => {
  const { code, out } = await program(t, sqliteUrl(t), `const { createRequire } = await import('node:module')
    console.log(createRequire(${JSON.stringify(import.meta.url)})('windlass').Windlass === Windlass)`).end()
  assert.deepEqual([code, out.split('\n')[0]], [0, 'true'])
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`run() ends gracefully on ${signal}, and takes its listeners away`, async t => {
    const child = program(t, sqliteUrl(t), `await windlass.migrate(); const id = await windlass.enqueue(any, 1)
      await windlass.worker(quiet).handle(any, async () => {
        const stopping = new Promise(resolve => process.once(${JSON.stringify(signal)}, resolve))
        console.log('running'); await stopping; return 'finished' }).run()
      console.log((await windlass.job(id)).state, process.listenerCount('SIGINT'), process.listenerCount('unhandledRejection'))`)
    await child.line('running')
    child.child.kill(signal)
    assert.deepEqual(await child.end(), { code: 0, out: 'running\ncompleted 0 0\n' })
  })
}

test('a second signal hands running jobs back at once', async t => {
  const child = program(t, sqliteUrl(t), `await windlass.migrate(); const id = await windlass.enqueue(any, 1)
    process.once('SIGTERM', () => console.log('once'))
    await windlass.worker({ ...quiet, gracePeriod: '1h' }).handle(any, () => { console.log('running'); return new Promise(() => {}) }).run()
    console.log((await windlass.job(id)).state)`)
  await child.line('running')
  child.child.kill('SIGTERM')
  await child.line('once')
  child.child.kill('SIGTERM')
  assert.deepEqual(await child.end(), { code: 0, out: 'running\nonce\navailable\n' })
})

test('an embedded worker leaves signals alone', async t => {
  const child = program(t, sqliteUrl(t), `await windlass.worker(quiet).handle(any, () => {}).start(); console.log('started', process.listenerCount('SIGTERM'))`)
  await child.line('started 0')
  child.child.kill('SIGTERM')
  assert.equal((await child.end()).code, 'SIGTERM')
})

test('a stray promise of a handler does not end a process whose affair is the worker', async t => {
  const child = program(t, sqliteUrl(t), `await windlass.migrate(); const [first, second] = await windlass.enqueueMany(any, [1, 2])
    const worker = windlass.worker({ ...quiet, queues: { default: 1 } }).handle(any, async n => { if (n === 1) Promise.reject(new Error('stray')); await new Promise(setImmediate) })
    windlass.wait(second, '60s').then(() => worker.stop())
    await worker.run(); console.log((await windlass.job(first)).state, (await windlass.job(second)).state)`)
  const { code, out } = await child.end()
  assert.equal(code, 0, out)
  assert.match(out, /nobody waits for was rejected: Error: stray[^]*completed completed/)
})

test('process.exit in a handler ends the process without a crash', async t => {
  const child = program(t, sqliteUrl(t), `await windlass.migrate(); await windlass.enqueue(any, 1)
    await windlass.worker(quiet).handle(any, () => { process.exit(7) }).run()`)
  assert.deepEqual(await child.end(), { code: 7, out: '' })
})

test('a panic is an error, and the process lives', async t => {
  const child = program(t, sqliteUrl(t), `const { answer, direct } = await import(${JSON.stringify(new URL('../../dist/native.js', import.meta.url).href)})
    const { panicForTest, panicLaterForTest } = addon()
    try { direct(() => panicForTest()) } catch (error) { console.log(error.name, error.code, error.message) }
    await answer(() => panicLaterForTest()).catch(error => console.log(error.code, error.message))
    await windlass.migrate(); console.log('lives', await windlass.enqueue(any, 1))`)
  const { code, out } = await child.end()
  assert.equal(code, 0, out)
  assert.match(out, /WindlassError internal a defect in Windlass[^]*internal the call panicked[^]*lives 1/)
})

test('native parts that are missing or of another version are named', async t => {
  const missing = program(t, sqliteUrl(t), 'windlass.queues().catch(error => console.log(error.code, error.message))', { WINDLASS_NATIVE_PATH: undefined })
  assert.match((await missing.end()).out, new RegExp(`^unsupported the native part of windlass for ${process.platform}-${process.arch}.*npm/cli #4828.*WINDLASS_NATIVE_PATH`))
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'fake.cjs'), 'exports.version = () => "9.9.9"')
  const other = program(t, sqliteUrl(t), 'windlass.queues().catch(error => console.log(error.message))', { WINDLASS_NATIVE_PATH: join(folder, 'fake.cjs') })
  assert.match((await other.end()).out, /^the package windlass is version 0\.1\.0 and its native part is version 9\.9\.9/)
})
