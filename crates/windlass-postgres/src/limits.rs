//! Limits of queues, and the share of them that a worker gets. The rules are in sql/functions/60_limits.sql and the two after it.

use crate::{
    database::Database,
    error::Effect,
    query::{Param, Query},
    row::{from_ms, get},
};
use std::time::Duration;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Error, ErrorKind, Limits, QueueLimits, QueueNeed, RateLimit, Result, Share, ShareRequest,
};

/// Sets the limits of a queue.
pub(crate) async fn limit(db: &Database, queue: &str, limits: &QueueLimits) -> Result<()> {
    limits.check()?;
    Limits::check_queue_name(queue)?;
    db.by_turns("limit", |on| async move { limit_on(db, &on, queue, limits).await }).await
}

pub(crate) async fn limit_on(
    db: &Database,
    on: &impl Query,
    queue: &str,
    limits: &QueueLimits,
) -> Result<()> {
    let done = if limits.is_none() {
        let unlimit = db.sql("SELECT {schema}.unlimit_queue($1)");
        on.query(&unlimit, &[(&queue, Type::TEXT)], Effect::Repeatable).await
    } else {
        let limit =
            db.sql("SELECT {schema}.limit_queue($1, $2, $3, $4::int8 * interval '1 microsecond', $5)");
        let rate = limits.rate;
        let (concurrency, count) = (limits.concurrency.map(int4), rate.map(|rate| int4(rate.count)));
        let period = rate.map(|rate| i64::try_from(rate.period.as_micros()).unwrap_or(i64::MAX));
        let burst = rate.and_then(|rate| rate.burst).map(int4);
        let params: [Param<'_>; 5] = [
            (&queue, Type::TEXT),
            (&concurrency, Type::INT4),
            (&count, Type::INT4),
            (&period, Type::INT8),
            (&burst, Type::INT4),
        ];
        on.query(&limit, &params, Effect::Repeatable).await
    };
    done.map(drop).map_err(too_old)
}

/// A worker's share of queues.
pub(crate) async fn share(db: &Database, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
    if request.queues.is_empty() {
        return Ok(Vec::new());
    }
    share_on(db, &db.settles("share").await?, request).await
}

pub(crate) async fn share_on(
    db: &Database,
    on: &impl Query,
    request: &ShareRequest,
) -> Result<Vec<Option<Share>>> {
    let queues: Vec<&str> = request.queues.iter().map(|need| &*need.queue).collect();
    let column =
        |value: fn(&QueueNeed) -> u32| -> Vec<i32> { request.queues.iter().map(value).map(int4).collect() };
    let (running, slots, starts) =
        (column(|need| need.running), column(|need| need.slots), column(|need| need.starts.jobs()));
    let (generation, costs) = (int4(request.generation), costs(&request.queues));
    let params: [Param<'_>; 7] = [
        (&request.worker.0, Type::INT4),
        (&queues, Type::TEXT_ARRAY),
        (&running, Type::INT4_ARRAY),
        (&slots, Type::INT4_ARRAY),
        (&starts, Type::INT4_ARRAY),
        (&generation, Type::INT4),
        (&costs, Type::TEXT_ARRAY),
    ];
    // A schema of version 12 knows no costs; it is not asked for any.
    let known = if costs.is_some() { 7 } else { 6 };
    let sql = db.sql(match costs {
        Some(_) => "SELECT * FROM {schema}.share($1, $2, $3, $4, $5, $6, $7)",
        None => "SELECT * FROM {schema}.share($1, $2, $3, $4, $5, $6)",
    });
    // A repeated call keeps the slots; starts that it gives again are lost to the rate, never too many.
    let rows = on.query(&sql, &params[..known], Effect::Repeatable).await.map_err(too_old)?;
    rows.iter().map(share_of).collect()
}

/// What the jobs of each queue cost, as runs of jobs; `None` where all cost 1.
fn costs(queues: &[QueueNeed]) -> Option<Vec<String>> {
    let costly = |need: &QueueNeed| need.starts.runs().iter().any(|(_, cost)| *cost != 1);
    let run = |(jobs, cost): &(u32, u32)| format!("{{{},{}}}", int4(*jobs), int4(*cost));
    let runs = |need: &QueueNeed| need.starts.runs().iter().map(run).collect::<Vec<_>>().join(",");
    queues.iter().any(costly).then(|| queues.iter().map(|need| format!("{{{}}}", runs(need))).collect())
}

/// Of a queue that is locked there is nothing, `wanted` included.
fn share_of(row: &Row) -> Result<Option<Share>> {
    let Some(wanted) = get(row, 5)? else { return Ok(None) };
    let limits = limits_of(row, 0)?;
    let number =
        |column| Ok::<_, Error>(get::<Option<i32>>(row, column)?.map(|count| count.max(0).unsigned_abs()));
    let (slots, starts) = (number(4)?, number(6)?);
    let next_start = get::<Option<f64>>(row, 7)?.map(from_ms);
    // An older schema does not say that a queue is paused.
    let paused = row.len() > 8 && get(row, 8)?;
    Ok(Some(Share { limits, slots, wanted, starts, next_start, paused }))
}

/// Reads four columns: the concurrency, and the count, the period in microseconds and the burst of a rate.
pub(crate) fn limits_of(row: &Row, first: usize) -> Result<QueueLimits> {
    let number = |column| Ok::<_, Error>(get::<Option<i32>>(row, column)?.map(i32::unsigned_abs));
    let mut limits = QueueLimits::default();
    limits.concurrency = number(first)?;
    if let (Some(count), Some(period)) = (number(first + 1)?, get::<Option<i64>>(row, first + 2)?) {
        let mut rate = RateLimit::new(count, Duration::from_micros(period.unsigned_abs()));
        rate.burst = number(first + 3)?;
        limits.rate = Some(rate);
    }
    Ok(limits)
}

fn int4(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The functions are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than limits of queues; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
