import 'reflect-metadata'
import { Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Windlass, type ArgsOf, type Job } from 'windlass'
import { JobHandler, WindlassModule } from 'windlass/nestjs'
import { sendMail } from './jobs.js'

@Injectable()
export class Mails { // it may inject what it needs, as any provider
  @JobHandler(sendMail)
  async send ({ to }: ArgsOf<typeof sendMail>, job: Job) { // args as the schema has them
    console.log('mail to', to, 'attempt', job.attempt)
  }
}

@Injectable()
export class Users {
  constructor (private readonly windlass: Windlass) {}

  async signUp (email: string) { await this.windlass.enqueue(sendMail, { to: email }) }
}

@Module({
  imports: [WindlassModule.forRoot({ store: process.env.WINDLASS_STORE ?? 'sqlite:jobs.db', migrate: true, queues: { mail: 20 } })],
  providers: [Mails, Users],
})
export class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error'] }) // or NestFactory.create(AppModule)
app.enableShutdownHooks() // a SIGTERM lets running jobs finish

await app.get(Users).signUp('you@example.com')
