// A program of its own: see in_threads.test.ts. Others that run all files of the folder give it no store.
import { Windlass } from 'windlass'
import { busy } from './busy.js'

if (process.env.WINDLASS_STORE) {
  const worker = new Windlass(process.env.WINDLASS_STORE).worker({ queues: { default: 1 } })
  await worker.handleInThreads(busy, new URL('./busy.js', import.meta.url), { threads: 3 }).start()
  await worker.close()
  console.log('closed')
}
