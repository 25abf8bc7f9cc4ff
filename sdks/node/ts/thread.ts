// What runs in a thread of `handleInThreads`.
import { parentPort, workerData } from 'node:worker_threads'
import { errorText } from './error_text.js'
import { InvalidOption } from './errors.js'
import { Handlers, type ThreadModule } from './handlers.js'
import { ThreadHandler } from './in_thread.js'
import type { Job, JobInfo } from './job.js'
import { Loop } from './loop.js'
import { around } from './middleware.js'
import { addon, direct } from './native.js'
import { Pulse } from './pulse.js'
import { keepAlive } from './signals.js'

/** What a thread tells: that it works, that its worker ended, or what a handler threw. */
export type FromThread = 'ready' | 'over' | { error: unknown, job: JobInfo }

const { number, modules, memory } = workerData as { number: number, modules: ThreadModule[], memory: SharedArrayBuffer }
const port = parentPort!
const tell = (told: FromThread) => port.postMessage(told)

function failed (error: unknown, { id, kind, queue, attempt, maxAttempts }: Job): void {
  const job = { id, kind, queue, attempt, maxAttempts }
  try {
    tell({ error, job })
  } catch { // it cannot be cloned
    tell({ error: errorText(error), job })
  }
}

const handlers = new Handlers()
for (const { kind, url } of modules) {
  const handler: unknown = (await import(url)).default
  if (!(handler instanceof ThreadHandler) || handler.job.kind !== kind) {
    throw new InvalidOption('invalid_option', `the default export of ${url} must be inThread(...) of the job "${kind}"`)
  }
  handlers.add({ job: handler.job, one: around(handler.use ?? [], handler.call) }, handler.call)
}
keepAlive()
const pulse = new Pulse(modules.map(({ kind }) => kind), memory)
const loop = new Loop(handlers, failed, 1, undefined, pulse)
loop.begin(direct(() => addon().attachWorker(number, loop.schedule)))
tell('ready')
await loop.ended
tell('over')
