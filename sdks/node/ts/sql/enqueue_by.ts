import { needsList } from '../args_list.js'
import type { ArgsInput, JobDefinition } from '../define.js'
import { errorOf, InvalidOption, type ErrorCode } from '../errors.js'
import { runner, type Executor, type Row } from './executor.js'
import { enqueueManySql, type EnqueueSqlOptions, type Statement } from './statements.js'

export type { EnqueueSqlOptions }

/** The codes of errors that Windlass's SQL functions raise. */
const CODES: Record<string, ErrorCode> = {
  WL001: 'lease_lost', WL002: 'invalid_name', WL003: 'invalid_option', WL004: 'invalid_args', WL006: 'invalid_option', WL007: 'unique_conflict',
  '3F000': 'schema_missing',
}

/** Enqueues jobs by somebody's driver; their ids. */
export async function enqueueBy<J extends JobDefinition> (executor: Executor, job: J, args: Array<ArgsInput<J>>, options?: EnqueueSqlOptions): Promise<number[]> {
  needsList(args)
  return args.length === 0 ? [] : idsOf(await runSql(executor, enqueueManySql(job, args, options)))
}

/** The ids that a statement answers: a bigint in each row, which drivers read as text, number or BigInt. */
export function idsOf (rows: Row[]): number[] { return rows.map(row => Number(onlyValue(row))) }

/** The one column of a row, whatever its name was made of: some libraries write it anew, as `transform` of postgres.js. */
export function onlyValue (row: Row): unknown { return Object.values(row)[0] }

/** Runs a statement; errors of Windlass's functions become its own, with the driver's as their cause. */
export async function runSql (executor: Executor, [text, params]: Statement): Promise<Row[]> {
  try {
    return await runner(executor)(text, params)
  } catch (cause) {
    throw translated(cause)
  }
}

/**
 * The same of a statement that is to commit together with what its transaction did before. No library says for all of them whether one is open: where each
 * statement is a transaction of its own, the second is another than the first, and does nothing then. What it would do commits by itself otherwise.
 */
export async function runInTransaction (executor: Executor, [text, params]: Statement): Promise<void> {
  const [here] = await runSql(executor, ['SELECT pg_current_xact_id()::text AS id', []])
  const done = here ? await runSql(executor, [`${text} WHERE pg_current_xact_id()::text = $${params.length + 1}::text`, [...params, String(onlyValue(here))]]) : []
  if (done.length > 0) return
  throw new InvalidOption('invalid_option',
    'no transaction is open on the connection, so the job would be completed apart from its effects: begin one before these, and complete it there')
}

function translated (cause: unknown): unknown {
  // Libraries wrap the error of the driver, each in its own way.
  for (let error = cause as any, depth = 0; error && depth < 4; error = error.cause ?? error.driverError, depth++) {
    const code = CODES[error.code] ?? CODES[error.meta?.code]
    const hint = code === 'schema_missing' ? ': Windlass is not installed in the database of this connection; `await windlass.migrate()` does it, or `npx windlass --store URL migrate`' : ''
    if (code) return errorOf(code, (error.meta?.message ?? error.message) + hint, { cause })
  }
  return cause
}
