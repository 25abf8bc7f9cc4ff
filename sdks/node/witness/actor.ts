// A worker of windlass-chaos in Node: `actor.js ORDER`. docs/design/proof.md, "Actors in other languages", says what it is told and notes.
// Jobs of the kind `work` run in the event loop, those of the kind `rare` in threads.
import { setTimeout } from 'node:timers/promises'
import { WindlassError } from 'windlass'
import { handle, open, work, rare } from './acts.js'
import { watch } from './native.js'

/** What an order says of a worker. */
interface Order {
  store: string
  number: number
  role: { Worker: { queues: string[], slots: number, lease_ms: number, grace_ms: number, knows_rare: boolean, timetable: Record<string, number> } }
}

/** How many threads work rare jobs. */
const THREADS = 4

const order = process.argv[2]!
watch(order)
const { store, number, role: { Worker: { queues, slots, lease_ms: lease, grace_ms: gracePeriod, knows_rare: knowsRare, timetable } } } = JSON.parse(order) as Order
if (Object.values(timetable).some(count => count > 0)) throw new Error('this actor declares no schedules')

// Whoever started this process closed its standard input, or is gone: as if told to stop.
process.stdin.resume().on('end', () => process.kill(process.pid, 'SIGTERM'))
const windlass = open(store)
for (let over = false; !over;) {
  const worker = windlass.worker({
    queues: Object.fromEntries(queues.map(queue => [queue, slots])), name: `chaos-${number}`, lease, gracePeriod, retryPolicy: { backoff: 'fixed', base: 30 },
    onError: error => console.error(String(error)),
  }).handle(work, handle)
  if (knowsRare) worker.handleInThreads(rare, new URL('./in_thread.js', import.meta.url), { threads: THREADS })
  try {
    await worker.run()
    over = true
  } catch (error) {
    if (!(error instanceof WindlassError && (error.retryable || error.ambiguous))) throw error
    await setTimeout(50) // a service manager would start it again
  }
}
process.exit(0) // told to end while it started, it does not wait for the store
