// What a Node program does with args:  interop.js enqueue STORE QUEUE...  |  interop.js work STORE QUEUE
import { defineJob, Windlass, WindlassError } from 'windlass'
import { digest } from './canonical.js'
import { vectors } from './vectors.js'

const { accepted, refused } = vectors('args.json') as Record<'accepted' | 'refused', Array<{ text: string }>>
const echo = defineJob<unknown>('echo')
const [what, store, ...queues] = process.argv.slice(2) as [string, string, ...string[]]
await using windlass = new Windlass(store)

if (what === 'work') {
  await windlass.worker({ queues: { [queues[0]!]: 10 } }).handle(echo, digest).run()
} else {
  const ids: Record<string, number[]> = {}
  for (const queue of queues) {
    ids[queue] = []
    for (const { text } of accepted) ids[queue].push(await windlass.enqueue(echo, JSON.parse(text), { queue }))
  }
  const codes: string[] = []
  for (const { text } of refused) {
    try {
      await windlass.enqueue(echo, JSON.parse(text), { queue: 'refused' })
      codes.push('enqueued')
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof WindlassError)) throw error
      codes.push(error instanceof SyntaxError ? 'no value' : error.code)
    }
  }
  console.log(JSON.stringify({ ids, refused: codes }))
}
