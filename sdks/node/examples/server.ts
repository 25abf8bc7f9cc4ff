import Fastify from 'fastify'
import { InvalidArgs } from 'windlass'
import { sendMail, windlass } from './jobs.js'

const server = Fastify()

server.post<{ Body: { email: string } }>('/users', async (request, reply) => {
  const id = await windlass.enqueue(sendMail, { to: request.body.email })
  return reply.code(202).send({ job: id })
})
server.get<{ Params: { id: string } }>('/jobs/:id', async (request, reply) => {
  const job = await windlass.job(Number(request.params.id))
  return job ? { state: job.state } : reply.code(404).send()
})
server.setErrorHandler(async (error, _, reply) => reply.code(error instanceof InvalidArgs ? 400 : 500).send({ error: String(error) }))

// Jobs may be worked in the same process. start() and close() leave signals to the server.
const worker = windlass.worker({ queues: { mail: 20 } }).handle(sendMail, async ({ to }) => { console.log('mail to', to) })
server.addHook('onReady', async () => { await windlass.migrate(); await worker.start() })
server.addHook('onClose', async () => { await worker.close(); await windlass.close() }) // running jobs finish

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => server.close())
console.log('listens at', await server.listen({ port: Number(process.env.PORT ?? 3000) }))
