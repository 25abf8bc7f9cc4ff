import { needsList } from './args_list.js'
import type { Connection } from './connection.js'
import type { JobDefinition } from './define.js'
import { bulk, bulkText, checkedAnd, needsJob, sending } from './enqueue.js'
import { Unsupported } from './errors.js'
import { addon, direct } from './native.js'
import type { EnqueueOptions } from './options.js'
import { idsOf, runSql, type EnqueueSqlOptions } from './sql/enqueue_by.js'
import { refusePool, runner, type Executor, type Row } from './sql/executor.js'
import { beyondSql, enqueueManySql, type Statement } from './sql/statements.js'

/** Enqueues jobs of one kind in somebody's transaction; their ids in order. */
export async function enqueueIn (on: Connection, executor: Executor, job: JobDefinition, args: unknown[], options: EnqueueSqlOptions = {}): Promise<number[]> {
  const schema = on.schema()
  if (schema === undefined) throw new Unsupported('unsupported', 'only a postgres:// store works inside transactions of yours')
  needsJob(job)
  needsList(args)
  runner(executor) // refuses what runs nothing
  refusePool(executor, INSTEAD)
  return sending(on, job, args, options ?? {}, async (options = {}) => store(on, schema, executor, job, args, options))
}

const INSTEAD = 'the job would be there also when yours rolls back: pass the connection that it is open on. ' +
  'Without a transaction windlass.enqueue does it, or a statement of enqueueSql (windlass/sql) by your pool'

async function store (on: Connection, schema: string, executor: Executor, job: JobDefinition, args: unknown[], options: EnqueueSqlOptions): Promise<number[]> {
  const { schema: other, idempotencyKey, ...rest } = options
  if (other === undefined && idempotencyKey === undefined && args.length > 0 && beyondSql(job, rest)) return byEngine(on, executor, job, args, rest)
  if (args.length === 0) return []
  const { statement, jobs } = await checkedAnd(job, args, () =>
    ({ statement: enqueueManySql(job, args, { ...options, schema: other ?? schema }), jobs: bulkText(job, args, rest) }))
  // What the server refused would end the user's transaction. No connection of Windlass's own is asked: it may not reach the store, and the transaction would wait.
  direct(() => addon().checkJobs(jobs))
  return idsOf(await runSql(executor, statement))
}

/** A statement of the engine's for one job. */
interface SqlCall { text: string, params: Array<{ value: string | number }> }

async function byEngine (on: Connection, executor: Executor, job: JobDefinition, args: unknown[], options: EnqueueOptions): Promise<number[]> {
  const calls: SqlCall[] = JSON.parse(await on.text('enqueue_sql', await bulk(job, args, options)))
  const rows: Row[] = []
  for (const statement of isUnique(job, options) ? [together(calls)] : calls.map(alone)) rows.push(...await runSql(executor, statement))
  return idsOf(rows)
}

function isUnique (job: JobDefinition, options: EnqueueOptions): boolean {
  return (options.unique ?? job.options.unique) !== undefined
}

/** Statements of unique jobs are alike but for their one parameter, a list of jobs. As one they take keys in an order that cannot deadlock. */
function together (calls: SqlCall[]): Statement {
  return [calls[0]!.text, [`[${calls.map(({ params: [jobs] }) => String(jobs!.value).slice(1, -1)).join(',')}]`]]
}

/** All parameters as texts, which every driver passes on alike. */
function alone ({ text, params }: SqlCall): Statement {
  return [text.replace(/\$(\d+)::/g, '$$$1::text::'), params.map(({ value }) => String(value))]
}
