//! One job, with its history.

use crate::{
    database::Database,
    error::Effect,
    query::Query,
    report::reported,
    row::{JsonText, count16, get},
};
use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};
use windlass_core::{Args, AttemptError, Attributes, JobId, JobRecord, JobState, Result, WorkerId};

/// A page of failed jobs asks for each of them: so what its attempts ended with comes with the job, in one statement.
pub(crate) async fn job(db: &Database, id: JobId) -> Result<Option<JobRecord>> {
    let connection = db.client("find a job").await?;
    let sql = db.sql(
        "SELECT r.*, e.* FROM {schema}.job_record($1) r CROSS JOIN LATERAL (
             SELECT array_agg(x.attempt ORDER BY x.at, x.attempt) AS attempts, array_agg(x.at ORDER BY x.at, x.attempt) AS ended_at,
                    array_agg(x.error ORDER BY x.at, x.attempt) AS attempt_errors
             FROM {schema}.attempt_error x WHERE x.job_id = $1) e",
    );
    let rows = connection.query(&sql, &[(&id.0, Type::INT8)], Effect::Repeatable).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut record = job_record(row)?;
    record.errors = errors(row)?;
    record.report = reported(db, &connection, id).await?.map(Box::new);
    Ok(Some(record))
}

/// In which states jobs are, asked in one statement.
pub(crate) async fn states(db: &Database, ids: &[JobId]) -> Result<Vec<Option<JobState>>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let connection = db.client("find jobs").await?;
    let sql = db.sql(
        "SELECT (SELECT r.state FROM {schema}.job_record(u.id) r) FROM unnest($1) WITH ORDINALITY AS u(id, n) ORDER BY u.n",
    );
    let rows = connection.query(&sql, &[(&ids, Type::INT8_ARRAY)], Effect::Repeatable).await?;
    rows.iter().map(|row| get::<Option<&str>>(row, 0)?.map(str::parse).transpose()).collect()
}

/// The last three columns. Without attempts that failed they are NULL.
fn errors(row: &Row) -> Result<Vec<AttemptError>> {
    let first = row.len() - 3;
    let Some(attempts) = get::<Option<Vec<i16>>>(row, first)? else { return Ok(Vec::new()) };
    let (ends, errors): (Vec<Timestamp>, Vec<String>) = (get(row, first + 1)?, get(row, first + 2)?);
    let each = attempts.into_iter().zip(ends).zip(errors);
    Ok(each
        .map(|((attempt, at), error)| AttemptError {
            attempt: u16::try_from(attempt).unwrap_or(0),
            at,
            error,
        })
        .collect())
}

/// Without the errors of its attempts and what its handlers said.
pub(crate) async fn job_on(db: &Database, on: &impl Query, id: JobId) -> Result<Option<JobRecord>> {
    let job = db.sql("SELECT * FROM {schema}.job_record($1)");
    let rows = on.query(&job, &[(&id.0, Type::INT8)], Effect::Repeatable).await?;
    rows.first().map(job_record).transpose()
}

/// Reads a row of view `jobs`, or of a list.
pub(crate) fn job_record(row: &Row) -> Result<JobRecord> {
    // An older program's functions do not answer with them.
    let attributes = row.columns().iter().position(|column| column.name() == "attributes");
    let attributes: Option<JsonText<'_>> = attributes.map_or(Ok(None), |column| get(row, column))?;
    let attributes =
        attributes.map_or(Ok(None), |text| Attributes::from_store(text.text()?))?.unwrap_or_default();
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
        tags: attributes.tags,
        cost: attributes.cost,
        timeout: attributes.timeout,
        retry_policy: attributes.retry_policy,
        expires_at: attributes.expires_at,
        result: json(row, 17)?,
        errors: Vec::new(),
        report: None,
    })
}

fn json(row: &Row, index: usize) -> Result<Option<Args>> {
    let text: Option<JsonText<'_>> = get(row, index)?;
    text.map(|text| text.args()).transpose()
}
