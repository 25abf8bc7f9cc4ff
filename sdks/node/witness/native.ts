// What the addon windlass-node-witness has beside that of the package, and how an actor reaches the worker that an event is of.
import { addon, type NativeWorker } from '#internal/native'
import type { Job } from 'windlass'

interface Witness {
  watch (order: string): void
  note (worker: NativeWorker, id: number, ticket: number, event: string, fields: string): void
}

const native = addon() as ReturnType<typeof addon> & Partial<Witness>
const { startWorker, attachWorker } = native
let worker: NativeWorker | undefined

// This thread has one worker at a time.
native.startWorker = async (...given) => (worker = await startWorker(...given))
native.attachWorker = (...given) => (worker = attachWorker(...given))

/** Begins the history of this process. */
export function watch (order: string): void {
  if (!native.watch) throw new Error('the addon has no witness: build windlass-node-witness, and start this as witness/command says')
  native.watch(order)
}

/** Notes an event of a job that a worker of this thread has. */
export function note (job: Job, event: string, fields: object = {}): void {
  native.note!(worker!, job.id, job.ticket, event, JSON.stringify(fields))
}
