import { Adapter, isPool, type Row } from './executor.js'

/** What Drizzle's `tx` has. */
export interface DrizzleTransaction { execute (query: any): PromiseLike<any> }
/** Drizzle's `sql`. */
export type DrizzleSql = (strings: TemplateStringsArray, ...params: any[]) => unknown
/** What Prisma's `tx` has. */
export interface PrismaTransaction { $queryRawUnsafe (text: string, ...params: any[]): PromiseLike<any> }
/** What Knex's `trx` has. */
export interface KnexTransaction { raw (text: string, params: any): PromiseLike<any> }
/** What Kysely's `trx` has. */
export interface KyselyTransaction { executeQuery (query: any): PromiseLike<{ rows: unknown[] }> }

/** A transaction of Drizzle: `windlass.enqueueIn(fromDrizzle(tx, sql), ...)`, with the `sql` of `drizzle-orm`. */
export function fromDrizzle (tx: DrizzleTransaction, sql: DrizzleSql): Adapter {
  return new Adapter(async (text, params) => {
    const strings = text.split(/\$\d+/)
    const answer = await tx.execute(sql(Object.assign(strings, { raw: strings }) as unknown as TemplateStringsArray, ...params))
    return rows(answer)
  }, isPool((tx as { $client?: unknown } | null)?.$client)) // which a transaction has not
}

/** A transaction of Prisma: `prisma.$transaction(tx => windlass.enqueueIn(fromPrisma(tx), ...))`. */
export function fromPrisma (tx: PrismaTransaction): Adapter {
  return new Adapter(async (text, params) => tx.$queryRawUnsafe(text, ...params))
}

/** A transaction of Knex: `knex.transaction(trx => windlass.enqueueIn(fromKnex(trx), ...))`. */
export function fromKnex (trx: KnexTransaction): Adapter {
  const { isTransaction, client } = (trx ?? {}) as { isTransaction?: boolean, client?: { pool?: unknown } }
  return new Adapter(async (text, params) => rows(await trx.raw(text.replace(/\$\d+/g, '?'), params)), isTransaction !== true && client?.pool !== undefined)
}

/** A transaction of Kysely: `db.transaction().execute(trx => windlass.enqueueIn(fromKysely(trx), ...))`. */
export function fromKysely (trx: KyselyTransaction): Adapter {
  return new Adapter(async (text, params) => {
    const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
    const answer = await trx.executeQuery({ sql: text, parameters: params, query, queryId: { queryId: 'windlass' } })
    return answer.rows as Row[]
  })
}

function rows (answer: { rows: Row[] } | Row[]): Row[] {
  return Array.isArray(answer) ? answer : answer.rows
}
