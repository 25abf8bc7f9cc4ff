//! Overviews: queues, workers, the store as a whole.

use crate::{
    database::Database,
    deadline::Patience,
    error::Effect,
    limits::limits_of,
    query::{Param, Query},
    row::{count, from_ms, get},
    sql::VERSION,
};
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Coming, Error, ErrorKind, Load, Program, QueueFilter, QueueStats, Result, StoreStatus, WorkerId,
    WorkerRecord,
};

/// The newer columns are read by name: a schema that is yet to be migrated has none.
const QUEUES: &str =
    "SELECT name, paused, available, running, scheduled, retryable, completed, cancelled, discarded,
        oldest_available_at, estimates, (q->>'concurrency')::int4, (q->>'rate')::int4,
        (extract(epoch FROM (q->>'rate_period')::interval) * 1000000)::int8, (q->>'rate_burst')::int4,
        coalesce((q->>'keyed')::bool, false), coalesce((q->>'no_handler')::int8, 0),
        (q->>'oldest_no_handler_at')::timestamptz
    FROM {schema}.queues, LATERAL to_jsonb(queues) AS q";
/// The names are chosen before anything is counted.
const AMONG: &str = "WHERE name = ANY (ARRAY(
        SELECT n.name FROM (SELECT q.name FROM {schema}.queue q UNION SELECT l.queue FROM {schema}.lane l) AS n
        WHERE ($1 IS NULL OR n.name = $1) AND ($3 IS NULL OR n.name > $3 COLLATE \"C\")
          AND ($2 IS NULL OR strpos(lower(n.name COLLATE \"C\"), lower($2 COLLATE \"C\")) > 0)
        ORDER BY n.name COLLATE \"C\" LIMIT $4))";
const BY_NAME: &str = "ORDER BY name COLLATE \"C\"";

pub(crate) async fn any_available(db: &Database, queues: &[String], kinds: &[String]) -> Result<bool> {
    let connection = db.client("look for available jobs").await?;
    let params: [Param<'_>; 2] = [(&queues, Type::TEXT_ARRAY), (&kinds, Type::TEXT_ARRAY)];
    let ask =
        async |sql: &str| get(&connection.query_one(&db.sql(sql), &params, Effect::Repeatable).await?, 0);
    if db.caches.available_now.known() != Some(false) {
        match ask("SELECT {schema}.available_now($1, $2)").await {
            Err(error) if error.kind() == ErrorKind::SchemaMissing => db.caches.available_now.note(false),
            answer => return answer,
        }
    }
    ask("SELECT {schema}.any_available($1, $2)").await // of a schema that is yet to be migrated
}

pub(crate) async fn coming(db: &Database, queues: &[String]) -> Result<Coming> {
    let connection = db.client("look for what is coming").await?;
    let sql = db.sql("SELECT key_due_ms, held, lease_ms FROM {schema}.coming($1)");
    let row = connection.query_one(&sql, &[(&queues, Type::TEXT_ARRAY)], Effect::Repeatable).await;
    let row = row.map_err(too_old)?;
    Ok(Coming {
        key_due: get::<Option<f64>>(&row, 0)?.map(from_ms),
        held: get::<i64>(&row, 1)?.unsigned_abs(),
        lease: from_ms(get(&row, 2)?),
    })
}

/// The function is missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than what this asks for; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}

pub(crate) async fn queues(db: &Database, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
    let mut connection = db.client("list queues").await?;
    connection.begin_long(Patience::Long).await?;
    let rows = if *filter == QueueFilter::default() {
        connection.query(&db.sql(&format!("{QUEUES} {BY_NAME}")), &[], Effect::Repeatable).await?
    } else {
        let QueueFilter { name, search, after, limit } = filter;
        let limit = limit.map(i64::from);
        let filter: [Param<'_>; 4] =
            [(name, Type::TEXT), (search, Type::TEXT), (after, Type::TEXT), (&limit, Type::INT8)];
        connection.query(&db.sql(&format!("{QUEUES} {AMONG} {BY_NAME}")), &filter, Effect::Repeatable).await?
    };
    rows.iter()
        .map(|row| {
            Ok(QueueStats {
                name: get(row, 0)?,
                paused: get(row, 1)?,
                limits: limits_of(row, 11)?,
                keyed: get(row, 15)?,
                available: count(row, 2)?,
                no_handler: count(row, 16)?,
                running: count(row, 3)?,
                scheduled: count(row, 4)?,
                retryable: count(row, 5)?,
                completed: count(row, 6)?,
                cancelled: count(row, 7)?,
                discarded: count(row, 8)?,
                oldest_available_at: get(row, 9)?,
                oldest_no_handler_at: get(row, 17)?,
                estimates: get::<Vec<&str>>(row, 10)?.into_iter().map(str::parse).collect::<Result<_>>()?,
            })
        })
        .collect()
}

pub(crate) async fn status(db: &Database) -> Result<StoreStatus> {
    let mut connection = db.client("status").await?;
    connection.begin_long(Patience::Long).await?;
    let size = db.sql(
        "SELECT current_setting('server_version'), coalesce((SELECT max(version) FROM {schema}.migration), 0),
                (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
                 WHERE c.relnamespace = {name}::regnamespace AND c.relkind = 'r')",
    );
    let row = connection.query_one(&size, &[], Effect::Repeatable).await?;
    let version: String = get(&row, 0)?;
    let schema_version = u32::try_from(get::<i32>(&row, 1)?).unwrap_or(VERSION);
    let size_bytes = count(&row, 2)?;
    let workers = db.sql(
        "SELECT id, name, queues, started_at, heartbeat_at,
                ended_at IS NULL AND heartbeat_at + lease >= clock_timestamp() AS live,
                to_jsonb(w) ->> 'draining_at' IS NOT NULL -- NULL before version 24, too
                OR EXISTS (SELECT 1 FROM {schema}.cancel_request q WHERE q.job_id = -w.id),
                to_jsonb(w) ->> 'program', to_jsonb(w) ->> 'app_version', to_jsonb(w) ->> 'engine', -- as the rest before version 26
                (to_jsonb(w) ->> 'memory_bytes')::int8, (to_jsonb(w) ->> 'jobs_per_second')::float8
         FROM {schema}.worker w ORDER BY live DESC, id DESC LIMIT $1",
    );
    let most = StoreStatus::MOST_WORKERS as i64 + 1;
    let rows = connection.query(&workers, &[(&most, Type::INT8)], Effect::Repeatable).await?;
    let workers = rows.iter().map(worker_record).collect::<Result<_>>()?;
    drop(connection);
    let store = format!("PostgreSQL {}", version.split(' ').next().unwrap_or(""));
    Ok(StoreStatus::new(store, schema_version, size_bytes, workers))
}

fn worker_record(row: &Row) -> Result<WorkerRecord> {
    Ok(WorkerRecord {
        id: WorkerId(get(row, 0)?),
        name: get(row, 1)?,
        queues: get(row, 2)?,
        started_at: get(row, 3)?,
        heartbeat_at: get(row, 4)?,
        live: get(row, 5)?,
        draining: get(row, 6)?,
        program: Program { name: get(row, 7)?, app_version: get(row, 8)?, engine: get(row, 9)? },
        load: Load {
            memory_bytes: get::<Option<i64>>(row, 10)?.map(i64::unsigned_abs),
            jobs_per_second: get(row, 11)?,
        },
    })
}
