import { threadId } from 'node:worker_threads'
import { defineJob, inThread } from 'windlass'
import { z } from 'zod'

export const busy = defineJob('busy', { args: z.object({ do: z.enum(['work', 'throw', 'die', 'unclonable', 'stop', 'spin', 'compute']) }), retryPolicy: { backoff: 'fixed', base: 0, jitter: 0 }, maxAttempts: 2 })

export default inThread(busy, async (args, job) => {
  if (args.do === 'throw') throw new RangeError('no room')
  if (args.do === 'unclonable') throw Object.assign(new Error('odd'), { call: () => {} })
  if (args.do === 'die' && job.attempt === 1) process.exit(3)
  if (args.do === 'stop') {
    job.log('running')
    await new Promise(done => job.signal.addEventListener('abort', done))
    return job.signal.reason.reason
  }
  if (args.do === 'spin') for (;;);
  const until = performance.now() + (args.do === 'compute' ? 12_000 : 5) // it takes the processor
  while (performance.now() < until);
  return threadId
})
