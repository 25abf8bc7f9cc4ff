import { brand } from '../brand.js'
import { InvalidOption } from '../errors.js'

/** Runs a statement of PostgreSQL in somebody's transaction, and gives its rows. */
export type Run = (text: string, params: string[]) => Promise<Row[]>

/** A row: the names of its columns, and their values as the driver reads them. */
export type Row = Record<string, unknown>

/** pg (a client or pool), or TypeORM (a query runner or entity manager). */
export interface QueryMethod { query (text: string, params: any[]): PromiseLike<any> }
/** postgres.js: a transaction's `sql`. */
export interface UnsafeMethod { unsafe (text: string, params: any[]): PromiseLike<any> }
/** Made by `fromDrizzle`, `fromPrisma`, `fromKnex` or `fromKysely`. */
export class Adapter {
  /** `ofPool`: each statement is run by whichever connection is free, as far as that can be told. */
  constructor (readonly run: Run, readonly ofPool = false) {}
}
brand(Adapter, 'adapter')

/** What a statement can be run by. */
export type Executor = Adapter | QueryMethod | UnsafeMethod

/** How an executor runs a statement. */
export function runner (executor: Executor): Run {
  if (executor instanceof Adapter) return executor.run
  const { unsafe, query } = (executor ?? {}) as Partial<QueryMethod & UnsafeMethod>
  if (typeof unsafe === 'function') return async (text, params) => unsafe.call(executor, text, params)
  if (typeof query === 'function') {
    return async (text, params) => {
      const answer = await query.call(executor, text, params)
      return Array.isArray(answer) ? answer : answer.rows
    }
  }
  const got = executor === null ? 'null' : typeof executor // not what it says: it may be a URL with a password
  throw new InvalidOption('invalid_option', 'pass the transaction: a client of pg, the sql of postgres.js, a query runner of TypeORM, ' +
    `or fromDrizzle(tx, sql), fromPrisma(tx), fromKnex(trx), fromKysely(trx); got ${got}`)
}

/** Refuses what has no transaction of its own: each statement would commit by itself, apart from what it is to commit with. `instead` says what happens, and what to do. */
export function refusePool (executor: Executor, instead: string): void {
  if (!(executor instanceof Adapter ? executor.ofPool : isPool(executor))) return
  throw new InvalidOption('invalid_option', `a pool is in no transaction, so ${instead}`)
}

/** Whether something runs each statement by whichever connection is free: a pool of pg, the sql of postgres.js outside of `begin`, a DataSource of TypeORM or its manager. */
export function isPool (on: unknown): boolean {
  const { totalCount, begin, createQueryRunner, connection, queryRunner, isTransactionActive } = (on ?? {}) as Record<string, any>
  if (totalCount !== undefined || begin !== undefined || createQueryRunner !== undefined) return true
  // A manager that has a transaction has its runner, and a runner knows of transactions.
  return connection?.createQueryRunner !== undefined && queryRunner === undefined && isTransactionActive === undefined
}
