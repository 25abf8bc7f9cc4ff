// Works jobs of Windlass, 10 at once:  windlass work --stdio 'exec node worker.mjs' --processes 2
import { createInterface } from 'node:readline'

const handlers = {
  'mail.send': async ({ to }, job) => {
    if (!to) throw new Error('nobody to send it to')
    say({ type: 'log', ticket: job.ticket, text: `attempt ${job.attempt}` })
    say({ type: 'progress', ticket: job.ticket, percent: 50, note: 'handing it over' })
    await new Promise(resolve => setTimeout(resolve, 1))
    return { sent_to: to }
  },
}
const running = new Map()

function say (message) {
  process.stdout.write(JSON.stringify(message) + '\n')
}

async function run (job) {
  const { ticket, kind, args } = job
  const abort = new AbortController()
  running.set(ticket, abort)
  try {
    const result = await handlers[kind](args, { ...job, signal: abort.signal })
    say({ type: 'complete', ticket, result })
  } catch (error) {
    say({ type: 'retry', ticket, error: String(error) })
  } finally {
    running.delete(ticket)
  }
}

console.log = console.error // what a handler prints goes to the log
say({ type: 'ready', protocol: 1, concurrency: 10, kinds: Object.keys(handlers) })
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line)
  if (message.type === 'job') run(message)
  if (message.type === 'cancel') running.get(message.ticket)?.abort(message.reason)
}
