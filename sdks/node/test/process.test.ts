import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { defineJob, type Windlass } from 'windlass'
import { ended, open, sqliteUrl, started } from './support.js'

const run = promisify(execFile)

/** How long a child may take for what should take a moment. */
const PATIENCE = 60_000

const any = defineJob<unknown>('any')

/** Works what another process left. */
const heir = (windlass: Windlass, t: TestContext) => started(t, windlass.worker({ queues: { default: 1 }, lease: '1s' }).handle(any, () => 'elsewhere'))

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
  const child = program(t, url, `await windlass.worker(quiet).handle(any, () => { console.log('worked'); setImmediate(close) }).start()
    console.log('started'); const worker = undefined; function close () {}`)
  await child.line('started')
  // Nothing but the bell keeps it: only a process that still lives works this.
  await windlass.enqueue(any, 1)
  await child.line('worked')
  child.child.kill('SIGKILL')
  const closed = program(t, sqliteUrl(t), `const worker = await windlass.worker(quiet).handle(any, () => {}).start(); await worker.close(); console.log('closed')`)
  assert.deepEqual(await closed.end(), { code: 0, out: 'closed\n' })
})

test('a worker that cannot start keeps no process alive', async t => {
  const { code, out } = await program(t, sqliteUrl(t), `await windlass.worker({ queues: { 'bad queue': 1 } }).handle(any, () => {}).start().catch(error => console.log(error.name))`).end()
  assert.deepEqual([code, out], [0, 'InvalidName\n'])
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

for (const second of ['SIGTERM', 'SIGINT'] as const) {
  test(`a second signal hands running jobs back at once: ${second}`, async t => {
    const child = program(t, sqliteUrl(t), `await windlass.migrate(); const id = await windlass.enqueue(any, 1)
      process.once('SIGINT', () => console.log('once'))
      await windlass.worker({ ...quiet, gracePeriod: '1h' }).handle(any, () => { console.log('running'); return new Promise(() => {}) }).run()
      console.log((await windlass.job(id)).state)`)
    await child.line('running')
    child.child.kill('SIGINT')
    await child.line('once')
    child.child.kill(second)
    assert.deepEqual(await child.end(), { code: 0, out: 'running\nonce\navailable\n' })
  })
}

test('a signal ends run() while the store does not answer', async t => {
  const silent = createServer(socket => socket.on('error', () => {})).listen(0, '127.0.0.1')
  t.after(() => silent.close())
  const asked = once(silent, 'connection')
  await once(silent, 'listening')
  const url = `postgres://me@127.0.0.1:${(silent.address() as AddressInfo).port}/none`
  const child = program(t, url, `await windlass.worker(quiet).handle(any, () => {}).run(); console.log('ended', process.listenerCount('SIGTERM')); process.exit(0)`)
  const [socket] = await asked as [Socket]
  t.after(() => socket.destroy())
  child.child.kill('SIGTERM')
  assert.deepEqual(await child.end(), { code: 0, out: 'ended 0\n' })
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

for (const [how, leave] of [['a handler', 'process.exit(7)'], ['a timer while handlers run', 'setImmediate(() => process.exit(7)); return new Promise(() => {})']] as const) {
  test(`process.exit in ${how} ends the process without a crash, and loses nothing`, async t => {
    const url = sqliteUrl(t)
    const { windlass } = await open(t, url)
    const ids = await windlass.enqueueMany(any, [1, 2, 3])
    const child = program(t, url, `await windlass.worker({ ...quiet, lease: '1s' }).handle(any, () => { ${leave} }).run()`)
    assert.deepEqual(await child.end(), { code: 7, out: '' })
    await heir(windlass, t)
    for (const id of ids) assert.equal((await ended(windlass, id)).result, 'elsewhere')
  })
}

test('the jobs of a killed process run again elsewhere', async t => {
  const url = sqliteUrl(t)
  const { windlass } = await open(t, url)
  const [running, waiting] = await windlass.enqueueMany(any, [1, 2])
  const child = program(t, url, `await windlass.worker({ queues: { default: 1 }, lease: '1s' })
    .handle(any, () => { console.log('running'); return new Promise(() => {}) }).run()`)
  await child.line('running')
  child.child.kill('SIGKILL')
  assert.equal((await child.end()).code, 'SIGKILL')
  await heir(windlass, t)
  const [was, other] = [await ended(windlass, running!), await ended(windlass, waiting!)]
  assert.deepEqual([was.state, was.result, was.crashCount, other.result], ['completed', 'elsewhere', 1, 'elsewhere'])
})

test('a worker whose process throws is no loss, either', async t => {
  const url = sqliteUrl(t)
  const { windlass } = await open(t, url)
  const id = await windlass.enqueue(any, 1)
  const child = program(t, url, `await windlass.worker({ ...quiet, lease: '1s' })
    .handle(any, () => { setImmediate(() => { throw new Error('nobody catches this') }); return new Promise(() => {}) }).run()`)
  const { code, out } = await child.end()
  assert.deepEqual([code, out.includes('Error: nobody catches this')], [1, true], out)
  await heir(windlass, t)
  assert.equal((await ended(windlass, id)).result, 'elsewhere')
})

test('a program that cares for stray rejections itself is left to it', async t => {
  const child = program(t, sqliteUrl(t), `process.on('unhandledRejection', reason => { console.log('mine:', reason.message); worker.stop() })
    await windlass.migrate(); await windlass.enqueue(any, 1)
    const worker = windlass.worker(quiet).handle(any, () => { Promise.reject(new Error('stray')) })
    await worker.run(); console.log(process.listenerCount('unhandledRejection'))`)
  assert.deepEqual(await child.end(), { code: 0, out: 'mine: stray\n1\n' })
})

test('two copies of the package work in one process by one native part, and know each other\'s outcomes', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-test-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const here = new URL('../../', import.meta.url).pathname
  cpSync(join(here, 'dist'), join(folder, 'dist'), { recursive: true })
  copyFileSync(join(here, 'package.json'), join(folder, 'package.json'))
  copyFileSync(process.env.WINDLASS_NATIVE_PATH!, join(folder, 'other.node'))
  const child = program(t, sqliteUrl(t), `await windlass.migrate()
    const other = await import(${JSON.stringify(join(folder, 'dist/index.js'))})
    process.env.WINDLASS_NATIVE_PATH = ${JSON.stringify(join(folder, 'other.node'))}
    const theirs = new other.Windlass(process.env.URL), say = other.defineJob('say')
    const [ours, thrown] = await windlass.enqueueMany(say, [1, 2]), third = await theirs.enqueue(any, 3)
    const a = windlass.worker({ queues: { default: 1 } }).handle(say, n => { if (n === 2) throw other.discard('thrown'); return other.cancel('returned') })
    const b = theirs.worker({ queues: { default: 1 } }).handle(any, () => other.Windlass !== Windlass)
    await Promise.all([a.start(), b.start()])
    for (const id of [ours, thrown, third]) await theirs.wait(id, '60s')
    const jobs = await Promise.all([ours, thrown, third].map(id => windlass.job(id)))
    console.log(...jobs.map(({ state, reason, result }) => [state, reason ?? result].join(':')))
    await Promise.all([a.close(), b.close()])
    console.log(process.report.getReport().sharedObjects.filter(name => name.endsWith('.node')).length)`)
  const { code, out } = await child.end()
  assert.deepEqual([code, out], [0, 'cancelled:returned discarded:thrown completed:true\n1\n'])
  // Another version has to have its own native part, and two of them damage SQLite files.
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '9.9.9' }))
  const newer = program(t, sqliteUrl(t), `await windlass.migrate()
    const other = await import(${JSON.stringify(join(folder, 'dist/index.js'))})
    await new other.Windlass(process.env.URL).queues().catch(error => console.log(error.code, error.message))`)
  assert.match((await newer.end()).out, /^unsupported this process has two copies of the package windlass: one of version 0\.1\.0, .* version 9\.9\.9; /)
})

test('a panic is an error, and the process lives', async t => {
  const child = program(t, sqliteUrl(t), `const { answer, direct } = await import(${JSON.stringify(new URL('../../dist/native.js', import.meta.url).href)})
    const { panicForTest, panicLaterForTest } = addon()
    try { direct(() => panicForTest()) } catch (error) { console.log(error.name, error.code, error.message) }
    await answer(() => panicLaterForTest()).catch(error => console.log(error.code, error.message))
    const { Calls } = await import(${JSON.stringify(new URL('../../dist/calls.js', import.meta.url).href)})
    const calls = await Calls.open(bell => answer(() => addon().open(process.env.URL, undefined, false, bell)))
    await answer(() => calls.call('panic_for_test', '{}')).catch(error => console.log(error.code, error.message))
    await calls.call(7, '{}').catch(error => console.log('not begun:', error.message))
    await windlass.migrate(); console.log('lives', await windlass.enqueue(any, 1))`)
  const { code, out } = await child.end()
  assert.equal(code, 0, out)
  assert.match(out, /WindlassError internal a defect in Windlass[^]*internal the call panicked[^]*internal .* please report it: the call panicked: asked to panic[^]*not begun: .*[^]*lives 1/)
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

test('the package brings the command', async t => {
  const url = sqliteUrl(t)
  const command = (...args: string[]) => run(process.execPath, [new URL('../../dist/bin.js', import.meta.url).pathname, ...args], { env: { ...process.env, WINDLASS_STORE: url } })
  await command('migrate')
  assert.match((await command('enqueue', 'any', '{"n":1}')).stdout, /\b1\b/)
  const { windlass } = await open(t, url)
  assert.equal((await windlass.job(1))!.kind, 'any')
  const refused = await command('jobs', 'show').catch(error => error)
  assert.deepEqual([refused.code, /Usage: windlass jobs show/.test(refused.stderr)], [2, true])
})

test('the first call asks for no names of sockets', async t => {
  const body = `process.report.getReport = () => { throw new Error('asked') }
    windlass.queues().catch(error => console.log(error.message))`
  const child = program(t, sqliteUrl(t), body, { WINDLASS_NATIVE_PATH: undefined })
  assert.match((await child.end()).out, new RegExp(`^the native part of windlass for ${process.platform}-${process.arch}`))
})

test('programs whose types are found by the older way find those of every part', () => {
  const { main, types, typesVersions, exports } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  assert.deepEqual([main, types], [exports['.'].default, exports['.'].types])
  for (const [part, { types }] of Object.entries<{ types?: string }>(exports)) {
    if (types !== undefined && part !== '.') assert.deepEqual(typesVersions['*'][part.slice(2)], [types], part)
  }
})
