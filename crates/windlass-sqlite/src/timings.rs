//! What workers measured: a row for each that a worker sent, put together by the minute, later by the quarter of an hour.

use crate::{
    clock::{Micros, micros, timestamp},
    error::Outcome,
    tx::Tx,
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use windlass_core::{Failure, Histogram, HistoryRequest, JobId, Timing, TimingRequest};

const MINUTE: Micros = 60_000_000;
const QUARTER: Micros = 15 * MINUTE;
/// The most rows that one transaction removes.
const CHUNK: usize = 1_000;

const ADD: &str = "INSERT INTO timing (at, queue, kind, wait, run) VALUES (?1, ?2, ?3, ?4, ?5)";
const ADD_FAILURE: &str = "INSERT INTO failure (at, queue, kind, fingerprint, sample, last_job, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const READ: &str = "SELECT at, queue, kind, wait, run FROM timing
    WHERE at >= ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR kind = ?3) ORDER BY at LIMIT ?4";
const READ_FAILURES: &str = "SELECT at, queue, kind, fingerprint, sample, last_job, n FROM failure
    WHERE at >= ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR kind = ?3) ORDER BY at LIMIT ?4";
const OLDEST: &str = "SELECT min(at) FROM (SELECT min(at) AS at FROM timing WHERE at >= ?1
    UNION ALL SELECT min(at) FROM failure WHERE at >= ?1)";

// Of a time to come: the clock was set back since, and what is measured from now on is to be put together, too.
const FOLLOW_CLOCK: &str = "UPDATE timing_kept SET minutes = min(minutes, ?1), quarters = min(quarters, ?1) WHERE max(minutes, quarters) > ?1";

pub(crate) type FailureRow = (String, String, Failure);

pub(crate) fn add(tx: &Tx<'_>, at: Micros, timings: &[Timing]) -> Outcome<()> {
    let (mut insert, mut insert_failure) =
        (tx.conn.prepare_cached(ADD)?, tx.conn.prepare_cached(ADD_FAILURE)?);
    for Timing { queue, kind, wait, run, failures, .. } in timings {
        if !wait.is_empty() || !run.is_empty() {
            insert.execute(params![at, queue, kind, text(wait), text(run)])?;
        }
        for Failure { fingerprint, sample, last_job, count, .. } in failures {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            insert_failure.execute(params![at, queue, kind, fingerprint, sample, last_job.0, count])?;
        }
    }
    Ok(())
}

fn text(histogram: &Histogram) -> String {
    serde_json::to_string(histogram).unwrap_or_else(|_| "{}".to_owned())
}

/// The beginning of the minute.
pub(crate) fn minute_of(at: Micros) -> Micros {
    at.div_euclid(MINUTE) * MINUTE
}

pub(crate) fn read(
    conn: &Connection,
    request: &TimingRequest,
    now: Micros,
) -> Outcome<Vec<(Timestamp, Timing)>> {
    rows_of(conn, READ, request, now, timing)
}

pub(crate) fn read_failures(
    conn: &Connection,
    request: &TimingRequest,
    now: Micros,
) -> Outcome<Vec<(Timestamp, FailureRow)>> {
    rows_of(conn, READ_FAILURES, request, now, failure)
}

fn rows_of<T>(
    conn: &Connection,
    sql: &str,
    request: &TimingRequest,
    now: Micros,
    read: fn(&Row<'_>, usize) -> Outcome<T>,
) -> Outcome<Vec<(Timestamp, T)>> {
    let mut find = conn.prepare_cached(sql)?;
    let since = minute_of(now.saturating_sub(micros(request.last)));
    let most = TimingRequest::MOST as i64 + 1;
    let mut rows = find.query(params![since, request.queue, request.kind, most])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((timestamp(row.get(0)?), read(row, 1)?));
    }
    match found.len() > TimingRequest::MOST {
        true => Err(TimingRequest::too_much().into()),
        false => Ok(found),
    }
}

fn timing(row: &Row<'_>, from: usize) -> Outcome<Timing> {
    let mut timing = Timing::new(row.get::<_, String>(from)?, row.get::<_, String>(from + 1)?);
    let histogram = |column: usize| -> Outcome<Histogram> {
        Ok(serde_json::from_str(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
            .unwrap_or_default())
    };
    (timing.wait, timing.run) = (histogram(from + 2)?, histogram(from + 3)?);
    Ok(timing)
}

fn failure(row: &Row<'_>, from: usize) -> Outcome<FailureRow> {
    let count: i64 = row.get(from + 5)?;
    let job = JobId(row.get(from + 4)?);
    let failure = Failure::stored(row.get(from + 2)?, row.get(from + 3)?, job, count.unsigned_abs());
    Ok((row.get(from)?, row.get(from + 1)?, failure))
}

/// One step: puts the rows of the oldest minute together, or of the oldest quarter of an hour that is old enough, or removes some that are too old. Whether
/// there may be more.
pub(crate) fn keep(tx: &Tx<'_>) -> Outcome<bool> {
    tx.conn.prepare_cached(FOLLOW_CLOCK)?.execute([minute_of(tx.now)])?;
    let (minutes, quarters): (Micros, Micros) =
        tx.conn.query_one("SELECT minutes, quarters FROM timing_kept", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let oldest = |from: Micros| -> Outcome<Option<Micros>> {
        Ok(tx.conn.prepare_cached(OLDEST)?.query_one([from], |row| row.get(0))?)
    };
    if let Some(at) = oldest(minutes)?.filter(|at| *at < tx.now - MINUTE) {
        join(tx, at, at + MINUTE)?;
        tx.conn.prepare_cached("UPDATE timing_kept SET minutes = ?1")?.execute([at + MINUTE])?;
        return Ok(true);
    }
    let quarter = oldest(quarters)?.map(|at| at.div_euclid(QUARTER) * QUARTER);
    if let Some(at) = quarter.filter(|at| *at < tx.now - micros(TimingRequest::MINUTES_KEPT) - QUARTER) {
        join(tx, at, at + QUARTER)?;
        tx.conn.prepare_cached("UPDATE timing_kept SET quarters = ?1")?.execute([at + QUARTER])?;
        return Ok(true);
    }
    let old = tx.now.saturating_sub(micros(HistoryRequest::LONGEST));
    let forget = |table: &str| -> Outcome<usize> {
        let sql = format!(
            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE at < ?1 ORDER BY at LIMIT ?2)"
        );
        Ok(tx.conn.prepare_cached(&sql)?.execute(params![old, CHUNK as i64])?)
    };
    Ok(forget("timing")? == CHUNK || forget("failure")? == CHUNK)
}

/// Puts the rows of this time together, at its beginning.
fn join(tx: &Tx<'_>, from: Micros, until: Micros) -> Outcome<()> {
    let timings: Vec<Timing> = tx
        .conn
        .prepare_cached("DELETE FROM timing WHERE at >= ?1 AND at < ?2 RETURNING queue, kind, wait, run")?
        .query_and_then([from, until], |row| timing(row, 0))?
        .collect::<Outcome<_>>()?;
    let failures: Vec<FailureRow> = tx
        .conn
        .prepare_cached(
            "DELETE FROM failure WHERE at >= ?1 AND at < ?2 RETURNING queue, kind, fingerprint, sample, last_job, n",
        )?
        .query_and_then([from, until], |row| failure(row, 0))?
        .collect::<Outcome<_>>()?;
    add(tx, from, &Timing::bounded(Timing::merged(timings), Timing::MOST_IN_A_SLOT))?;
    for (queue, kind, failure) in Failure::joined(failures) {
        let mut timing = Timing::new(queue, kind);
        timing.failures.push(failure);
        add(tx, from, &[timing])?;
    }
    Ok(())
}
