/** The stable words to branch on; those of every language. */
export type ErrorCode =
  | 'invalid_args' | 'invalid_name' | 'invalid_option' | 'unique_conflict' | 'not_found' | 'unavailable' | 'ambiguous'
  | 'lease_lost' | 'schema_missing' | 'schema_too_new' | 'schema_too_old' | 'permission_denied' | 'storage_full'
  | 'undecryptable' | 'events_expired' | 'unsupported' | 'internal'

/**
 * What went wrong in Windlass. `code` says what, to branch on; there is a subclass for each code that programs react to.
 *
 * ```ts
 * try { await windlass.enqueue(sendMail, { to }) } catch (error) {
 *   if (error instanceof Unavailable) return later()
 *   throw error
 * }
 * ```
 */
export class WindlassError extends Error {
  override readonly name: string = 'WindlassError'
  readonly #ambiguous: boolean

  constructor (readonly code: ErrorCode, message: string, options?: ErrorOptions & { ambiguous?: boolean | undefined }) {
    super(message, options)
    this.#ambiguous = options?.ambiguous ?? code === 'ambiguous'
  }

  /** Whether the same call may succeed later without anybody changing anything. */
  get retryable (): boolean { return this.code === 'unavailable' || this.code === 'storage_full' }

  /** Whether a write may or may not have happened. */
  get ambiguous (): boolean { return this.#ambiguous }
}

/** Args, a result or a checkpoint that is no JSON, too large, or not what the schema of its job says. */
export class InvalidArgs extends WindlassError { override readonly name = 'InvalidArgs' }
/** A name of a queue, a kind, a schedule or a schema that breaks the rules. */
export class InvalidName extends WindlassError { override readonly name = 'InvalidName' }
/** An option that is out of range, unknown, or malformed; a store's URL among them. */
export class InvalidOption extends WindlassError { override readonly name = 'InvalidOption' }
/** A unique job that is not to be enqueued twice: another has its key. */
export class UniqueConflict extends WindlassError { override readonly name = 'UniqueConflict' }
/** There is no such job, queue or schedule. */
export class NotFound extends WindlassError { override readonly name = 'NotFound' }
/** The store cannot be reached now. Nothing was changed: call again later. */
export class Unavailable extends WindlassError { override readonly name = 'Unavailable' }
/** The connection broke after a write was sent: it may have happened. Repeat it under an idempotency key. */
export class Ambiguous extends WindlassError { override readonly name = 'Ambiguous' }
/** The job is not this worker's any more: stop, and roll back. */
export class LeaseLost extends WindlassError { override readonly name = 'LeaseLost' }
/** The store was not migrated, or by another version: `windlass.migrate()`. */
export class SchemaMismatch extends WindlassError { override readonly name = 'SchemaMismatch' }
/** The store's user lacks a privilege. */
export class PermissionDenied extends WindlassError { override readonly name = 'PermissionDenied' }
/** The store's disk is full: call again when it has room. */
export class StorageFull extends WindlassError { override readonly name = 'StorageFull' }
/** What is encrypted cannot be read here: its key is missing, or it was changed. */
export class Undecryptable extends WindlassError { override readonly name = 'Undecryptable' }
/** Events behind the cursor were removed, or it is of another store: go on from `'start'` or `'now'`. */
export class EventsExpired extends WindlassError { override readonly name = 'EventsExpired' }
/** This store cannot do that; transactions want PostgreSQL, for example. */
export class Unsupported extends WindlassError { override readonly name = 'Unsupported' }

const CLASSES: Partial<Record<ErrorCode, typeof WindlassError>> = {
  invalid_args: InvalidArgs,
  invalid_name: InvalidName,
  invalid_option: InvalidOption,
  unique_conflict: UniqueConflict,
  not_found: NotFound,
  unavailable: Unavailable,
  ambiguous: Ambiguous,
  lease_lost: LeaseLost,
  schema_missing: SchemaMismatch,
  schema_too_new: SchemaMismatch,
  schema_too_old: SchemaMismatch,
  permission_denied: PermissionDenied,
  storage_full: StorageFull,
  undecryptable: Undecryptable,
  events_expired: EventsExpired,
  unsupported: Unsupported,
}

/** The error of a code. */
export function errorOf (code: ErrorCode, message: string, options?: ConstructorParameters<typeof WindlassError>[2]): WindlassError {
  return new (CLASSES[code] ?? WindlassError)(code, message, options)
}
