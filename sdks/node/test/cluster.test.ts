import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { defineJob } from 'windlass'
import { ended, onSqlite } from './support.js'

const any = defineJob<number>('any')

/** Two processes that work, and a primary that starts another for each that is killed. It says who works what, in lines of JSON. */
const CLUSTER = `
import cluster from 'node:cluster'
import { Windlass, defineJob } from ${JSON.stringify(import.meta.resolve('windlass'))}
if (cluster.isPrimary) {
  const say = what => console.log(JSON.stringify(what))
  const begin = () => cluster.fork().on('message', say)
  begin(); begin()
  let closing = false
  cluster.on('exit', (worker, code, signal) => {
    say({ ended: worker.process.pid, code, signal })
    if (!closing) begin()
  })
  process.once('SIGTERM', () => { closing = true; for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM') })
} else {
  const windlass = new Windlass(process.env.URL)
  await windlass.worker({ queues: { default: 1 }, lease: '1s' }).handle(defineJob('any'), async (n, job) => {
    process.send({ pid: process.pid, n, crashCount: job.crashCount })
    if (n < 0 && job.crashCount === 0) await new Promise(() => {}) // until it is killed
    return process.pid
  }).run()
  await windlass.close()
  process.disconnect()
}`

interface Said { pid?: number, n?: number, crashCount?: number, ended?: number, code?: number | null, signal?: string | null }

onSqlite('the jobs of a process of a cluster that is killed run again in the others, and in the one that takes its place', async ({ windlass, url }, t) => {
  const file = join(dirname(url.slice('sqlite:'.length)), 'cluster.mjs')
  writeFileSync(file, CLUSTER)
  const primary = spawn(process.execPath, [file], { env: { ...process.env, URL: url }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => primary.kill('SIGKILL'))
  const exit = once(primary, 'exit')
  const said: Said[] = []
  const lines = createInterface(primary.stdout)[Symbol.asyncIterator]()
  const until = async (test: (one: Said) => boolean): Promise<Said> => {
    for (;;) {
      const { value, done } = await lines.next()
      if (done) throw new Error(`the primary ended: ${JSON.stringify(said)}`)
      const one = JSON.parse(value) as Said
      said.push(one)
      if (test(one)) return one
    }
  }

  const [stuck] = await windlass.enqueueMany(any, [-1])
  const victim = await until(one => one.n === -1)
  process.kill(victim.pid!, 'SIGKILL')
  assert.equal((await until(one => one.ended === victim.pid)).signal, 'SIGKILL')
  const again = await until(one => one.n === -1)
  assert.notEqual(again.pid, victim.pid)
  assert.equal(again.crashCount, 1)
  assert.equal((await ended(windlass, stuck!)).state, 'completed')

  const ids = await windlass.enqueueMany(any, Array.from({ length: 50 }, (_, n) => n))
  for (const id of ids) assert.equal((await ended(windlass, id)).state, 'completed')

  primary.kill('SIGTERM')
  await until(one => one.ended !== undefined && one.code === 0)
  await until(one => one.ended !== undefined && one.code === 0)
  assert.deepEqual(await exit, [0, null])
})
