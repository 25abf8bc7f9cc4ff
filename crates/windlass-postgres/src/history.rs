//! Counters: reading them, and making them from the log in housekeeping.

use crate::{
    connection::Connection,
    database::Database,
    deadline::Patience,
    error::Effect,
    query::Query,
    row::{count, get},
};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_postgres::types::Type;
use windlass_core::{Count, Error, ErrorKind, EventType, History, HistoryRequest, Result};

/// About how many jobs one step counts: some 10 ms.
const JOBS_OF_STEP: i32 = 20_000;
/// How long the steps of one round may go on. With the emptying of segments it is shorter than the term of who leads.
const LONGEST_ROUND: Duration = Duration::from_secs(5);
/// The rest after a step while jobs complete, as a multiple of the step. A round comes every ten seconds or so, so counting takes at most 4 % of one processor
/// from those who work.
const REST_WHILE_BUSY: u32 = 9;
/// A step that took long did so because others had the machine.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// The rest while none do.
const REST: u32 = 2;

pub(crate) async fn history(db: &Database, request: &HistoryRequest) -> Result<History> {
    request.check()?;
    let (last, step) = (request.last.as_secs_f64(), request.step.as_secs_f64());
    let outcome = request.outcome.map(EventType::as_str);
    let sql = db.sql(
        "SELECT h.*, f.counted_until FROM {schema}.counter_fold f
         LEFT JOIN {schema}.history(make_interval(secs => $1), make_interval(secs => $2), $3, $4, $5) h ON true LIMIT $6",
    );
    let mut connection = db.client("history").await?;
    connection.begin_long(Patience::Long).await?;
    let rows = connection
        .query(
            &sql,
            &[
                (&last, Type::FLOAT8),
                (&step, Type::FLOAT8),
                (&request.queue, Type::TEXT),
                (&request.kind, Type::TEXT),
                (&outcome, Type::TEXT),
                (&(HistoryRequest::MOST as i64 + 1), Type::INT8),
            ],
            Effect::Repeatable,
        )
        .await
        .map_err(too_old)?;
    if rows.len() > HistoryRequest::MOST {
        return Err(HistoryRequest::too_much());
    }
    let Some(first) = rows.first() else {
        return Err(Error::new(ErrorKind::Internal, "table counter_fold is empty"));
    };
    let mut counts = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Some(at) = get(row, 0)? {
            counts.push(Count::new(
                at,
                get(row, 1)?,
                get(row, 2)?,
                get::<&str>(row, 3)?.parse()?,
                count(row, 4)?,
            ));
        }
    }
    Ok(History::new(request.step, get(first, 5)?, counts))
}

/// Counts what ended, with rests between the steps, and removes counters that are too old.
pub(crate) async fn fold(db: &Database, connection: &mut Connection) -> Result<()> {
    let step = db.sql("SELECT again, busy FROM {schema}.fold($1)");
    let began = Instant::now();
    while began.elapsed() < LONGEST_ROUND {
        connection.extend(Patience::Long);
        let step_began = Instant::now();
        let row = connection.query_one(&step, &[(&JOBS_OF_STEP, Type::INT4)], Effect::Repeatable).await?;
        if !row.get::<_, bool>(0) {
            break;
        }
        let rest = if row.get(1) { REST_WHILE_BUSY } else { REST };
        sleep((step_began.elapsed() * rest).min(LONGEST_REST)).await;
    }
    Ok(())
}

/// Table and function are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than history; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
