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
export class Adapter { constructor (readonly run: Run) {} }
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
  // A pool of pg, the sql of postgres.js outside of `begin`, a DataSource of TypeORM.
  const { totalCount, begin, createQueryRunner } = (executor ?? {}) as unknown as Record<string, unknown>
  if (totalCount === undefined && begin === undefined && createQueryRunner === undefined) return
  throw new InvalidOption('invalid_option', `a pool is in no transaction, so ${instead}`)
}
