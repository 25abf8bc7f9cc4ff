/** Windlass in NestJS: an injectable client, and providers whose methods work jobs. The guide: docs/typescript.md. */
export { JobBatchHandler, JobHandler } from './handler.js'
export { WindlassModule } from './module.js'
export type { WindlassModuleAsyncOptions, WindlassModuleOptions } from './options.js'
export { Windlass } from '../windlass.js'
