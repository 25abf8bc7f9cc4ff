use crate::{deadline::Patience, error::Effect, row::JsonText, sql::VERSION, store::PostgresStore};
use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Args, AttemptError, Error, ErrorKind, JobFilter, JobId, JobPage, JobRecord, PageToken, QueueStats,
    Result, StoreStatus, WorkerId, WorkerRecord,
};

/// The column behind those of a job: where the page ended.
const NEXT: usize = 18;

/// How many workers a status lists at most.
const MAX_WORKERS: i64 = 1_000;

impl PostgresStore {
    pub(crate) async fn find_job(&self, id: JobId) -> Result<Option<JobRecord>> {
        let connection = self.connections.client("find a job").await?;
        let job = self.sql("SELECT * FROM {schema}.job_record($1)");
        let rows = connection.query(&job, &[(&id.0, Type::INT8)], Effect::Repeatable).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut record = job_record(row)?;
        let errors = self.sql(
            "SELECT attempt, at, error FROM {schema}.attempt_error WHERE job_id = $1 ORDER BY at, attempt",
        );
        for row in connection.query(&errors, &[(&id.0, Type::INT8)], Effect::Repeatable).await? {
            record.errors.push(AttemptError {
                attempt: count16(&row, 0)?,
                at: get(&row, 1)?,
                error: get(&row, 2)?,
            });
        }
        Ok(Some(record))
    }

    pub(crate) async fn list_jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        filter.check()?;
        let state = filter.state.map(|state| state.as_str());
        let after = filter.position()?;
        let limit = i32::try_from(filter.limit).unwrap_or(i32::MAX);
        let mut connection = self.connections.client("list jobs").await?;
        connection.begin_long(Patience::Long).await?;
        let rows = connection
            .query(
                &self.sql("SELECT (p.job).*, p.next FROM {schema}.list_jobs($1, $2, $3, $4, $5) p"),
                &[
                    (&state, Type::TEXT),
                    (&filter.queue, Type::TEXT),
                    (&filter.kind, Type::TEXT),
                    (&after, Type::INT8_ARRAY),
                    (&limit, Type::INT4),
                ],
                Effect::Repeatable,
            )
            .await?;
        let mut page = JobPage::default();
        for row in &rows {
            match get::<Option<Vec<i64>>>(row, NEXT)? {
                None => page.jobs.push(job_record(row)?),
                Some(position) => page.next = Some(PageToken::new(filter, &position)),
            }
        }
        Ok(page)
    }

    pub(crate) async fn has_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        let connection = self.connections.client("look for available jobs").await?;
        let row = connection
            .query_one(
                &self.sql("SELECT {schema}.any_available($1, $2)"),
                &[(&queues, Type::TEXT_ARRAY), (&kinds, Type::TEXT_ARRAY)],
                Effect::Repeatable,
            )
            .await?;
        get(&row, 0)
    }

    pub(crate) async fn list_queues(&self) -> Result<Vec<QueueStats>> {
        let sql = self.sql(
            "SELECT name, paused, available, running, scheduled, retryable, completed, cancelled, discarded,
                    oldest_available_at, estimates
             FROM {schema}.queues ORDER BY name",
        );
        let mut connection = self.connections.client("list queues").await?;
        connection.begin_long(Patience::Long).await?;
        let rows = connection.query(&sql, &[], Effect::Repeatable).await?;
        rows.iter()
            .map(|row| {
                Ok(QueueStats {
                    name: get(row, 0)?,
                    paused: get(row, 1)?,
                    available: count(row, 2)?,
                    running: count(row, 3)?,
                    scheduled: count(row, 4)?,
                    retryable: count(row, 5)?,
                    completed: count(row, 6)?,
                    cancelled: count(row, 7)?,
                    discarded: count(row, 8)?,
                    oldest_available_at: get(row, 9)?,
                    estimates: get::<Vec<&str>>(row, 10)?
                        .into_iter()
                        .map(str::parse)
                        .collect::<Result<_>>()?,
                })
            })
            .collect()
    }

    pub(crate) async fn read_status(&self) -> Result<StoreStatus> {
        let mut connection = self.connections.client("status").await?;
        connection.begin_long(Patience::Long).await?;
        let size = self.sql(
            "SELECT current_setting('server_version'), coalesce((SELECT max(version) FROM {schema}.migration), 0),
                    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
                     WHERE c.relnamespace = {name}::regnamespace AND c.relkind = 'r')",
        );
        let row = connection.query_one(&size, &[], Effect::Repeatable).await?;
        let version: String = get(&row, 0)?;
        let schema_version = u32::try_from(get::<i32>(&row, 1)?).unwrap_or(VERSION);
        let size_bytes = count(&row, 2)?;
        let workers = self.sql(
            "SELECT id, name, queues, started_at, heartbeat_at,
                    ended_at IS NULL AND heartbeat_at + lease >= clock_timestamp() AS live
             FROM {schema}.worker ORDER BY live DESC, id DESC LIMIT $1",
        );
        let rows = connection.query(&workers, &[(&MAX_WORKERS, Type::INT8)], Effect::Repeatable).await?;
        let workers = rows.iter().map(worker_record).collect::<Result<_>>()?;
        drop(connection);
        Ok(StoreStatus {
            store: format!("PostgreSQL {}", version.split(' ').next().unwrap_or("")),
            schema_version,
            size_bytes,
            workers,
            queues: self.list_queues().await?,
        })
    }
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("cannot read column {index}: {cause}")).with_source(cause)
    })
}

fn count(row: &Row, index: usize) -> Result<u64> {
    Ok(u64::try_from(get::<i64>(row, index)?).unwrap_or(0))
}

fn count16(row: &Row, index: usize) -> Result<u16> {
    Ok(u16::try_from(get::<i16>(row, index)?).unwrap_or(0))
}

fn worker_record(row: &Row) -> Result<WorkerRecord> {
    Ok(WorkerRecord {
        id: WorkerId(get(row, 0)?),
        name: get(row, 1)?,
        queues: get(row, 2)?,
        started_at: get(row, 3)?,
        heartbeat_at: get(row, 4)?,
        live: get(row, 5)?,
    })
}

/// A page ends with the job of this id.
fn json(row: &Row, index: usize) -> Result<Option<Args>> {
    let text: Option<JsonText<'_>> = get(row, index)?;
    text.map(|text| text.args()).transpose()
}

/// Reads a row of view `jobs`.
fn job_record(row: &Row) -> Result<JobRecord> {
    let args: JsonText<'_> = get(row, 8)?;
    Ok(JobRecord {
        id: JobId(get(row, 0)?),
        state: get::<&str>(row, 1)?.parse()?,
        kind: get(row, 2)?,
        queue: get(row, 3)?,
        priority: get(row, 4)?,
        attempt: count16(row, 5)?,
        max_attempts: count16(row, 6)?,
        crash_count: count16(row, 7)?,
        args: args.args()?,
        enqueued_at: get::<Timestamp>(row, 9)?,
        scheduled_at: get(row, 10)?,
        claimed_at: get(row, 11)?,
        claimed_by: get::<Option<i32>>(row, 12)?.map(WorkerId),
        finished_at: get(row, 13)?,
        reason: get(row, 14)?,
        key: get(row, 15)?,
        meta: json(row, 16)?,
        result: json(row, 17)?,
        errors: Vec::new(),
    })
}
