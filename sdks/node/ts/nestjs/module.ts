import { Module, type DynamicModule, type ModuleMetadata, type Provider } from '@nestjs/common'
import { DiscoveryModule, DiscoveryService } from '@nestjs/core'
import { Windlass } from '../windlass.js'
import type { WindlassModuleAsyncOptions, WindlassModuleOptions } from './options.js'
import { WorkerHost } from './worker_host.js'

const OPTIONS = Symbol('windlass.module_options')

/**
 * Makes a `Windlass` that every provider may inject, and works jobs by the methods that {@link JobHandler} marks, from when the application has started until it
 * is closed.
 *
 * ```ts
 * @Module({ imports: [WindlassModule.forRoot({ store: process.env.DATABASE_URL!, queues: { mail: 20 } })], providers: [Mails] })
 * class AppModule {}
 * ```
 */
export class WindlassModule {
  /** `WindlassModule.forRoot({ store: process.env.DATABASE_URL!, queues: { mail: 20 } })` */
  static forRoot (options: WindlassModuleOptions): DynamicModule {
    return dynamic({ provide: OPTIONS, useValue: options })
  }

  /** `WindlassModule.forRootAsync({ inject: [ConfigService], useFactory: config => ({ store: config.getOrThrow('DATABASE_URL') }) })` */
  static forRootAsync ({ imports, inject = [], useFactory }: WindlassModuleAsyncOptions): DynamicModule {
    return dynamic({ provide: OPTIONS, inject, useFactory }, imports)
  }
}
Module({})(WindlassModule)

function dynamic (options: Provider, imports: ModuleMetadata['imports'] = []): DynamicModule {
  const client: Provider = {
    provide: Windlass,
    inject: [OPTIONS],
    useFactory: async ({ store, keys, traces, migrate }: WindlassModuleOptions) => {
      const windlass = new Windlass(store, { keys, traces })
      if (migrate) await windlass.migrate()
      return windlass
    },
  }
  const host: Provider = {
    provide: WorkerHost,
    inject: [OPTIONS, Windlass, DiscoveryService],
    useFactory: (options: WindlassModuleOptions, windlass: Windlass, discovery: DiscoveryService) => new WorkerHost(options, windlass, discovery),
  }
  return { module: WindlassModule, global: true, imports: [DiscoveryModule, ...imports], providers: [options, client, host], exports: [Windlass] }
}
