/** Enqueueing by plain SQL through any driver of PostgreSQL. Nothing here loads native code. */
export { defineJob, type ArgsInput, type ArgsOf, type JobDefinition } from '../define.js'
export { InvalidArgs, InvalidOption, LeaseLost, UniqueConflict, WindlassError } from '../errors.js'
export { fromDrizzle, fromKnex, fromKysely, fromPrisma } from './adapters.js'
export { enqueueBy } from './enqueue_by.js'
export type { Adapter, Executor } from './executor.js'
export { enqueueManySql, enqueueSql, type EnqueueSqlOptions, type Statement } from './statements.js'
