//! What handlers say of their jobs while they run. The rules are in sql/functions/33_reports.sql.

use crate::{
    claim::Reference,
    database::Database,
    error::Effect,
    query::{Param, Query},
    row::{Json, JsonText, count, count16, get},
};
use tokio_postgres::types::Type;
use windlass_core::{
    Args, Error, ErrorKind, HandlerReport, JobId, JobReport, LogLine, Progress, ReportRequest, Reported,
    Result,
};

/// Keeps checked reports of jobs that the worker holds.
pub(crate) async fn report(db: &Database, request: &ReportRequest) -> Result<Vec<Reported>> {
    if request.reports.is_empty() {
        return Ok(Vec::new());
    }
    report_on(db, &db.reports("report").await?, request).await
}

pub(crate) async fn report_on(
    db: &Database,
    on: &impl Query,
    request: &ReportRequest,
) -> Result<Vec<Reported>> {
    let sql =
        db.sql("SELECT {schema}.report($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)");
    let columns = Columns::of(&request.reports);
    // Idempotent: the same call again changes nothing.
    let answer = on.query_one(&sql, &columns.params(&request.worker.0), Effect::Repeatable).await;
    let held: Vec<bool> = answer.map_err(too_old)?.get(0);
    let reply = |held| if held { Reported::Accepted } else { Reported::Refused };
    Ok(held.into_iter().map(reply).collect())
}

/// The parameters of `report`, but the first.
#[derive(Default)]
struct Columns<'a> {
    lanes: Vec<i32>,
    seqs: Vec<i64>,
    tokens: Vec<i32>,
    jobs: Vec<i64>,
    xids: Vec<i64>,
    numbers: Vec<i64>,
    attempts: Vec<i16>,
    percents: Vec<Option<f64>>,
    notes: Vec<Option<&'a str>>,
    checkpoints: Vec<Option<Json<'a>>>,
    dropped: Vec<i64>,
    line_of: Vec<i32>,
    line_ages: Vec<f64>,
    lines: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(reports: &'a [JobReport]) -> Self {
        let mut columns = Self::default();
        for (nth, report) in (1..).zip(reports) {
            columns.add(nth, report);
        }
        columns
    }

    fn add(&mut self, nth: i32, report: &'a JobReport) {
        let Reference { lane, seq, token } = report.claim.into();
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.lanes.push(lane);
        self.seqs.push(seq);
        self.tokens.push(token);
        self.jobs.push(report.job.0);
        self.xids.push(report.position);
        self.numbers.push(number(report.number));
        self.attempts.push(i16::try_from(report.attempt).unwrap_or(i16::MAX));
        self.percents.push(report.progress.as_ref().map(|progress| progress.percent));
        self.notes.push(report.progress.as_ref().and_then(|progress| progress.note.as_deref()));
        self.checkpoints.push(report.checkpoint.as_ref().map(|checkpoint| Json(checkpoint.as_str())));
        self.dropped.push(number(report.dropped));
        for entry in &report.log {
            self.line_of.push(nth);
            self.line_ages.push(entry.age.as_secs_f64());
            self.lines.push(&entry.text);
        }
    }

    fn params<'p>(&'p self, worker: &'p i32) -> [Param<'p>; 15] {
        [
            (worker, Type::INT4),
            (&self.lanes, Type::INT4_ARRAY),
            (&self.seqs, Type::INT8_ARRAY),
            (&self.tokens, Type::INT4_ARRAY),
            (&self.jobs, Type::INT8_ARRAY),
            (&self.xids, Type::INT8_ARRAY),
            (&self.numbers, Type::INT8_ARRAY),
            (&self.attempts, Type::INT2_ARRAY),
            (&self.percents, Type::FLOAT8_ARRAY),
            (&self.notes, Type::TEXT_ARRAY),
            (&self.checkpoints, Type::JSON_ARRAY),
            (&self.dropped, Type::INT8_ARRAY),
            (&self.line_of, Type::INT4_ARRAY),
            (&self.line_ages, Type::FLOAT8_ARRAY),
            (&self.lines, Type::TEXT_ARRAY),
        ]
    }
}

/// The last checkpoint of each job.
pub(crate) async fn checkpoints(db: &Database, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
    checkpoints_on(db, &db.reports("read checkpoints").await?, ids).await
}

pub(crate) async fn checkpoints_on(
    db: &Database,
    on: &impl Query,
    ids: &[JobId],
) -> Result<Vec<Option<Args>>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let sql = db.sql("SELECT {schema}.checkpoints($1)");
    let row = on.query_one(&sql, &[(&ids, Type::INT8_ARRAY)], Effect::Repeatable).await;
    let row = row.map_err(too_old)?;
    let last: Option<Vec<Option<JsonText<'_>>>> = get(&row, 0)?;
    last.unwrap_or_default().into_iter().map(|last| last.map(|json| json.args()).transpose()).collect()
}

/// What the handlers of a job said of it, for those who may read.
pub(crate) async fn reported(db: &Database, on: &impl Query, id: JobId) -> Result<Option<HandlerReport>> {
    let sql = db.sql("SELECT * FROM {schema}.progress($1)");
    let rows = match on.query(&sql, &[(&id.0, Type::INT8)], Effect::Repeatable).await {
        // Not migrated to version 7 yet: nothing is reported.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => return Ok(None),
        rows => rows?,
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let checkpoint: Option<JsonText<'_>> = get(row, 4)?;
    Ok(Some(HandlerReport {
        progress: get::<Option<f64>>(row, 0)?
            .map(|percent| Ok::<_, Error>(Progress { percent, note: get(row, 1)? }))
            .transpose()?,
        attempt: count16(row, 2)?,
        reported_at: get(row, 3)?,
        checkpoint: checkpoint.map(|json| json.args()).transpose()?,
        log: lines(get::<JsonText<'_>>(row, 5)?.text()?)?,
        log_dropped: count(row, 6)?,
    }))
}

fn lines(json: &str) -> Result<Vec<LogLine>> {
    serde_json::from_str(json).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("the log of a job is damaged: {cause}")).with_source(cause)
    })
}

/// The functions are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than progress, logs and checkpoints; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
