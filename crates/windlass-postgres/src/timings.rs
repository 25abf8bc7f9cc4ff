//! What workers measured. The rules are in sql/functions/44_timings.sql.

use crate::{
    database::Database,
    deadline::Patience,
    error::Effect,
    query::{Param, Query},
    row::{Json, JsonText, count, get},
    store::PostgresStore,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Error, ErrorKind, Failure, FailureGroup, Histogram, JobId, Result, Timing, TimingRequest, TimingStore,
    Timings,
};

const MEASURE: &str = "SELECT {schema}.measure($1::json::jsonb)";
const TIMINGS: &str = "SELECT t.at, t.queue, t.kind, t.wait::json, t.run::json FROM {schema}.timing t
    WHERE t.at > (SELECT clock_timestamp() - make_interval(secs => $1) - interval '1 minute')
      AND ($2::text IS NULL OR t.queue = $2) AND ($3::text IS NULL OR t.kind = $3) ORDER BY t.at LIMIT $4";
const FAILURES: &str = "SELECT f.at, f.queue, f.kind, f.fingerprint, f.sample, f.last_job, f.n FROM {schema}.failure f
    WHERE f.at > (SELECT clock_timestamp() - make_interval(secs => $1) - interval '1 minute')
      AND ($2::text IS NULL OR f.queue = $2) AND ($3::text IS NULL OR f.kind = $3) ORDER BY f.at, f.last_job LIMIT $4";

#[async_trait]
impl TimingStore for PostgresStore {
    async fn measure(&self, timings: &[Timing]) -> Result<()> {
        Timing::check(timings)?;
        if timings.is_empty() {
            return Ok(());
        }
        let json = serde_json::Value::from_iter(timings.iter().map(written)).to_string();
        let sql = self.db.sql(MEASURE);
        let connection = self.db.client("measure").await?;
        match connection.query(&sql, &[(&Json(&json), Type::JSON)], Effect::Write).await {
            Err(error) if error.kind() == ErrorKind::SchemaMissing => Ok(()), // not migrated for it yet
            done => done.map(drop),
        }
    }

    async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        let rows = rows_of(&self.db, TIMINGS, request).await?;
        let timed = rows.iter().map(timing).collect::<Result<Vec<_>>>()?;
        Ok(Timings::of(request, timed))
    }

    async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        let rows = rows_of(&self.db, FAILURES, request).await?;
        Ok(FailureGroup::of(rows.iter().map(failure).collect::<Result<Vec<_>>>()?))
    }
}

fn written(timing: &Timing) -> serde_json::Value {
    let failure = |failure: &Failure| {
        let Failure { fingerprint, sample, last_job, count, .. } = failure;
        json!({"fingerprint": fingerprint, "sample": sample, "last_job": last_job.0, "count": count})
    };
    let failures: Vec<_> = timing.failures.iter().map(failure).collect();
    json!({"queue": timing.queue, "kind": timing.kind, "wait": timing.wait, "run": timing.run, "failures": failures})
}

async fn rows_of(db: &Database, sql: &str, request: &TimingRequest) -> Result<Vec<Row>> {
    request.check()?;
    let (last, most) = (request.last.as_secs_f64(), TimingRequest::MOST as i64 + 1);
    let mut connection = db.client("timings").await?;
    connection.begin_long(Patience::Long).await?;
    let params: [Param<'_>; 4] = [
        (&last, Type::FLOAT8),
        (&request.queue, Type::TEXT),
        (&request.kind, Type::TEXT),
        (&most, Type::INT8),
    ];
    let rows = connection.query(&db.sql(sql), &params, Effect::Repeatable).await.map_err(too_old)?;
    if rows.len() > TimingRequest::MOST {
        return Err(TimingRequest::too_much());
    }
    Ok(rows)
}

fn timing(row: &Row) -> Result<(Timestamp, Timing)> {
    let mut timing = Timing::new(get::<String>(row, 1)?, get::<String>(row, 2)?);
    (timing.wait, timing.run) = (histogram(row, 3)?, histogram(row, 4)?);
    Ok((get(row, 0)?, timing))
}

fn histogram(row: &Row, column: usize) -> Result<Histogram> {
    serde_json::from_slice(get::<JsonText<'_>>(row, column)?.0).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("table timing holds what is no histogram: {cause}"))
    })
}

fn failure(row: &Row) -> Result<(Timestamp, String, String, Failure)> {
    let failure = Failure::stored(get(row, 3)?, get(row, 4)?, JobId(get(row, 5)?), count(row, 6)?);
    Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?, failure))
}

/// The tables are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than timings; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
