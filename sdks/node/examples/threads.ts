import { resize, windlass } from './jobs.js'

await windlass.migrate()
const worker = windlass.worker({ queues: { images: 8 } })
  .handleInThreads(resize, new URL('./resize.js', import.meta.url), { threads: 2 })
await worker.start()

const id = await windlass.enqueue(resize, { image: 7, width: 64 })
await windlass.wait(id, '30s')
console.log(await windlass.result(id))
await worker.close()
