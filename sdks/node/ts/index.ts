/** A durable background-job queue. The guide: docs/typescript.md. */
export { defineJob, type ArgsInput, type ArgsOf, type JobDefinition } from './define.js'
export type { Duration } from './duration.js'
export type { EnqueuedUnique, OnceOptions } from './enqueue.js'
export {
  Ambiguous, InvalidArgs, InvalidOption, LeaseLost, NotFound, SchemaMismatch, Unavailable, UniqueConflict, Unsupported, WindlassError,
  type ErrorCode,
} from './errors.js'
export type { BatchHandler, Handler } from './handlers.js'
export { JobInterrupted, type Job, type StopReason } from './job.js'
export type { KeyLimit, KeyLimits, Limits, QueueLimits } from './limits.js'
export type { EnqueueOptions, JobOptions, RetryPolicy, Unique } from './options.js'
export { cancel, discard, retry, snooze, type Outcome } from './outcome.js'
export type { HandlerReport, JobPage, JobRecord, JobState, QueueRecord, StoreStatus } from './records.js'
export { schedule, type ScheduleRecord, type Schedules, type ScheduleSpec } from './schedules.js'
export type { StandardSchema } from './schema.js'
export type { JobEdit, JobFilter, Selection, Touched } from './select.js'
export { fromDrizzle, fromKnex, fromKysely, fromPrisma } from './sql/adapters.js'
export type { EnqueueSqlOptions } from './sql/statements.js'
export type { Executor } from './sql/executor.js'
export { Windlass, type CancelReply, type DeleteReply, type EditReply, type RetryReply } from './windlass.js'
export type { Worker, WorkerOptions, WorkerStats } from './worker.js'
