import 'reflect-metadata'
import assert from 'node:assert/strict'
import { type TestContext } from 'node:test'
import { Injectable, Module, Scope, type DynamicModule, type ModuleMetadata, type Type } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { defineJob, Windlass, type ArgsOf, type Job } from 'windlass'
import { JobBatchHandler, JobHandler, WindlassModule } from 'windlass/nestjs'
import { busy } from './modules/busy.js'
import type { Traces } from 'windlass/otel'
import { ended, onBoth, onSqlite, Signal } from './support.js'

const mail = defineJob<{ to: string }>('mail', { queue: 'mail', maxAttempts: 1 })
const index = defineJob<number>('index', { queue: 'mail' })

@Injectable()
class Outbox { readonly sent: string[] = [] }

@Injectable()
class Mails {
  constructor (private readonly outbox: Outbox, private readonly windlass: Windlass) {}

  @JobHandler(mail)
  async send ({ to }: ArgsOf<typeof mail>, job: Job): Promise<string> {
    if (to === 'nobody') throw new Error('no such address')
    this.outbox.sent.push(to)
    return `${to} ${job.attempt} ${(await this.windlass.job(job.id))!.state}`
  }
}

async function application (t: TestContext, windlass: DynamicModule, providers: NonNullable<ModuleMetadata['providers']> = [Mails, Outbox]) {
  @Module({ imports: [windlass], providers })
  class AppModule {}
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false })
  t.after(() => app.close())
  return app
}

onBoth('a provider works jobs with what it injects, and others enqueue by the client', async ({ windlass, url }, t) => {
  const app = await application(t, WindlassModule.forRoot({ store: url, queues: { mail: 5 }, name: 'nest' }))
  const id = await app.get(Windlass).enqueue(mail, { to: 'ada' })
  const record = await ended(windlass, id)
  assert.deepEqual([record.result, app.get(Outbox).sent], ['ada 1 running', ['ada']])
  const failed = await ended(windlass, await app.get(Windlass).enqueue(mail, { to: 'nobody' }))
  assert.match(failed.errors[0]!.error, /^Error: no such address/)
  assert.deepEqual((await windlass.status()).workers.map(({ name }) => name), ['nest'])
})

onSqlite('closing the application lets running jobs finish while their providers are there, then closes the client', async ({ windlass, url }, t) => {
  const [running, goOn] = [new Signal(), new Signal()]
  const order: string[] = []
  @Injectable()
  class Database { beforeApplicationShutdown () { order.push('database closed') } }
  @Injectable()
  class Slow {
    @JobHandler(mail)
    async send () {
      running.fire()
      await goOn.promise
      order.push('job done')
    }
  }
  const app = await application(t, WindlassModule.forRoot({ store: url, queues: { mail: 1 } }), [Slow, Database])
  const ids = await windlass.enqueueMany(mail, [{ to: 'a' }, { to: 'b' }])
  await running.promise
  const closed = app.close()
  goOn.fire()
  await closed
  assert.deepEqual(order, ['job done', 'database closed'])
  assert.deepEqual((await Promise.all(ids.map(id => windlass.job(id)))).map(job => job!.state), ['completed', 'available'])
  await assert.rejects(app.get(Windlass).queues(), /is closed/)
})

onSqlite('options come from a factory with what it injects', async ({ windlass, url }, t) => {
  @Injectable()
  class Config { readonly store = url }
  @Module({ providers: [Config], exports: [Config] })
  class ConfigModule {}
  await application(t, WindlassModule.forRootAsync({
    imports: [ConfigModule], inject: [Config], useFactory: async ({ store }: Config) => ({ store, migrate: true, queues: { mail: 1 } }),
  }))
  assert.equal((await ended(windlass, await windlass.enqueue(mail, { to: 'a' }))).state, 'completed')
})

onSqlite('the client and the worker of an application have its keys and its traces', async ({ windlass, url }, t) => {
  const account = defineJob<{ passport: string }>('account', { queue: 'mail', encrypted: true })
  @Injectable()
  class Accounts { @JobHandler(account) open ({ passport }: ArgsOf<typeof account>) { return `opened with ${passport}` } }
  const traced: string[] = []
  const traces: Traces = {
    send: ({ kind }, run) => { traced.push(`send ${kind}`); return run(undefined) },
    process: ({ kind }, run) => { traced.push(`process ${kind}`); return run() },
  }
  const keys = `k1:${Buffer.alloc(32, 7).toString('base64')}`
  const app = await application(t, WindlassModule.forRoot({ store: url, keys, traces, queues: { mail: 1 } }), [Accounts])
  const id = await app.get(Windlass).enqueue(account, { passport: 'C01' })
  const record = await ended(windlass, id)
  assert.deepEqual([record.state, Object.keys(record.args as object), await app.get(Windlass).result(id)], ['completed', ['windlass.enc'], 'opened with C01'])
  assert.deepEqual(traced, ['send account', 'process account'])
})

onSqlite('without queues an application only enqueues', async ({ windlass, url }, t) => {
  const app = await application(t, WindlassModule.forRoot({ store: url }))
  await app.get(Windlass).enqueue(mail, { to: 'a' })
  assert.deepEqual((await windlass.status()).workers, [])
})

onSqlite('batches, threads, inherited handlers, and methods that others wrap', async ({ windlass, url }, t) => {
  const wrapped = (_: object, __: string | symbol, descriptor: TypedPropertyDescriptor<any>) => {
    const method = descriptor.value
    descriptor.value = function (...given: unknown[]) { return `wrapped ${Reflect.apply(method, this, given)}` }
  }
  @Injectable()
  class Base {
    @wrapped
    @JobHandler(mail)
    send ({ to }: { to: string }): string { return to }

    @JobBatchHandler(index, { maxSize: 10 })
    index (jobs: Array<Job<number>>) { return jobs.map(({ args }) => args + 1) }
  }
  @Injectable()
  class Derived extends Base {}
  const register = (worker: import('windlass').Worker) => worker.handleInThreads(busy, new URL('./modules/busy.js', import.meta.url), { threads: 1 })
  await application(t, WindlassModule.forRoot({ store: url, queues: { mail: 5, default: 5 }, register }), [Derived])
  const result = async (id: number) => (await ended(windlass, id)).result
  assert.equal(await result(await windlass.enqueue(mail, { to: 'a' })), 'wrapped a')
  assert.equal(await result(await windlass.enqueue(index, 7)), 8)
  assert.ok(Number(await result(await windlass.enqueue(busy, { do: 'work' }))) > 0)
})

onSqlite('an application that cannot work jobs does not start, and says why', async ({ url }, t) => {
  const start = (...providers: Array<Type<unknown>>) => application(t, WindlassModule.forRoot({ store: url, queues: { mail: 1 } }), [...providers, Outbox])
  @Injectable({ scope: Scope.REQUEST })
  class OfRequest { @JobHandler(mail) send () {} }
  @Injectable()
  class Again { @JobHandler(mail) send () {} }
  await assert.rejects(start(), /no provider has a method with @JobHandler/)
  await assert.rejects(start(OfRequest), /OfRequest.send works jobs of "mail", so its class has to be a singleton/)
  await assert.rejects(start(Mails, Again), /two handlers for "mail"/)
})

onSqlite('a provider may have several names', async ({ url }, t) => {
  await application(t, WindlassModule.forRoot({ store: url, queues: { mail: 1 } }), [Mails, { provide: 'MAILS', useExisting: Mails }, Outbox])
})
