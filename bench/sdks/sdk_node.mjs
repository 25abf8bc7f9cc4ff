// One measurement of the TypeScript package, as sdk_python.py: `node sdk_node.mjs drain JOBS` or `enqueue TASKS BATCH JOBS`, on $BENCH_URL.
// WINDLASS_PACKAGE says where the package is.

const { defineJob, Windlass } = await import(process.env.WINDLASS_PACKAGE)
const CONCURRENCY = 1_000
const windlass = new Windlass(`${process.env.BENCH_URL}?migrate=auto`)
const job = defineJob('bench.node')
const now = () => performance.now() / 1_000

async function fill (batch, from, to) {
  for (let first = from; first < to; first += batch) {
    await windlass.enqueueMany(job, Array.from({ length: Math.min(batch, to - first) }, (_, n) => ({ id: first + n })))
  }
}

async function drain (jobs) {
  await fill(10_000, 0, jobs)
  const ran = new Set()
  let runs = 0
  const began = now()
  const worker = await windlass.worker({ queues: { default: CONCURRENCY } }).handle(job, ({ id }) => { runs++; ran.add(id) }).start()
  await worker.untilIdle()
  const took = now() - began
  await worker.close()
  const [{ available, running, scheduled, retryable }] = await windlass.queues()
  const left = available + running + scheduled + retryable
  if (runs !== jobs || ran.size !== jobs || left) throw new Error(`${jobs} jobs, ${runs} runs of ${ran.size}, ${left} left`)
  return took
}

async function enqueue (tasks, batch, jobs) {
  await windlass.enqueue(job, { id: 0 }) // connects, and makes the tables
  const client = async n => {
    const [from, to] = [jobs * n / tasks, jobs * (n + 1) / tasks].map(Math.floor)
    if (batch > 1) return fill(batch, from, to)
    for (let id = from; id < to; id++) await windlass.enqueue(job, { id })
  }
  const began = now()
  await Promise.all(Array.from({ length: tasks }, (_, n) => client(n)))
  return now() - began
}

const [verb, ...numbers] = process.argv.slice(2)
const figures = numbers.map(Number)
const took = await (verb === 'drain' ? drain(...figures) : enqueue(...figures))
console.log(JSON.stringify({ per_second: figures.at(-1) / took }))
await windlass.close()
