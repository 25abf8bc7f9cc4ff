//! Limits of queues: setting and reading them, and the share of them that a worker gets.

use crate::{clock::micros, error::Outcome, slots, starts, tx::Tx};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{sync::Arc, time::Duration};
use windlass_core::{QueueLimits, QueueNeed, RateLimit, Share, ShareRequest, WorkerId};

const FIND: &str = "SELECT concurrency, rate, rate_period, rate_burst, id, paused NOT IN (0, 2, 11) FROM queue WHERE name = ?1";
const SET: &str =
    "UPDATE queue SET concurrency = ?2, rate = ?3, rate_period = ?4, rate_burst = ?5 WHERE id = ?1";
const LIMITED: &str =
    "SELECT queue.name FROM worker, json_each(worker.queues) AS own JOIN queue ON queue.name = own.value
    WHERE worker.id = ?1 AND (concurrency IS NOT NULL OR rate IS NOT NULL)";

/// Sets the limits of a queue, whose name was checked.
pub(crate) fn limit(tx: &mut Tx<'_>, queue: &str, limits: &QueueLimits) -> Outcome<()> {
    let known = find(tx.conn, queue)?.map_or(QueueLimits::default(), |found| found.limits);
    // Kept to the microsecond.
    let rate = limits.rate.map(|mut rate| {
        rate.period = Duration::from_micros(micros(rate.period).unsigned_abs());
        rate
    });
    if (known.concurrency, known.rate) == (limits.concurrency, rate) {
        return Ok(());
    }
    let id = tx.queue(queue)?;
    let set = params![
        id,
        limits.concurrency,
        rate.map(|rate| rate.count),
        rate.map(|rate| micros(rate.period)),
        rate.and_then(|rate| rate.burst)
    ];
    tx.conn.prepare_cached(SET)?.execute(set)?;
    match (known.concurrency, limits.concurrency) {
        (Some(_), Some(_)) => {}
        (_, None) if rate.is_some() => slots::unlimited(tx, id)?,
        // Nobody has said yet how many it runs.
        _ => slots::forget_queue(tx, id)?,
    }
    match (known.rate, rate) {
        (_, None) => starts::forget_queue(tx, id)?,
        (Some(was), Some(rate)) => starts::keep(tx, id, &was, &rate)?,
        (None, Some(_)) => {}
    }
    tx.request()
}

struct Found {
    id: i64,
    limits: QueueLimits,
    paused: bool,
}

fn find(conn: &Connection, queue: &str) -> Outcome<Option<Found>> {
    let row = |row: &Row<'_>| Ok(Found { limits: of(row, 0)?, id: row.get(4)?, paused: row.get(5)? });
    Ok(conn.prepare_cached(FIND)?.query_one([queue], row).optional()?)
}

/// Whether a queue has limits.
pub(crate) fn is_limited(conn: &Connection, queue: &str) -> Outcome<bool> {
    Ok(find(conn, queue)?.is_some_and(|found| !found.limits.is_none()))
}

/// Reads the four columns.
pub(crate) fn of(row: &Row<'_>, first: usize) -> rusqlite::Result<QueueLimits> {
    let mut limits = QueueLimits::default();
    limits.concurrency = row.get(first)?;
    if let (Some(count), Some(period)) = (row.get(first + 1)?, row.get::<_, Option<i64>>(first + 2)?) {
        let mut rate = RateLimit::new(count, Duration::from_micros(period.unsigned_abs()));
        rate.burst = row.get(first + 3)?;
        limits.rate = Some(rate);
    }
    Ok(limits)
}

/// Those of the worker's queues that have limits.
pub(crate) fn of_worker(tx: &Tx<'_>, worker: WorkerId) -> Outcome<Vec<Arc<str>>> {
    let mut find = tx.conn.prepare_cached(LIMITED)?;
    let names = find.query_map([worker.0], |row| row.get::<_, String>(0).map(Arc::from))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// The worker's share of each queue.
pub(crate) fn share(tx: &mut Tx<'_>, request: &ShareRequest) -> Outcome<Vec<Option<Share>>> {
    tx.fence(request.worker)?;
    request.queues.iter().map(|need| share_of(tx, request.worker, need).map(Some)).collect()
}

fn share_of(tx: &mut Tx<'_>, worker: WorkerId, need: &QueueNeed) -> Outcome<Share> {
    let Some(Found { id: queue, limits, paused }) = find(tx.conn, &need.queue)? else {
        return Ok(Share::UNLIMITED);
    };
    let mut share = Share { limits, paused: paused && !limits.is_none(), ..Share::UNLIMITED };
    let need = if share.paused { &need.of_what_runs() } else { need };
    match limits.concurrency {
        Some(limit) => {
            let (slots, wanted) = slots::share(tx, queue, worker, limit, need)?;
            (share.slots, share.wanted) = (Some(slots), wanted);
        }
        None if limits.rate.is_some() => slots::enter(tx, queue, worker, need.slots > 0)?,
        None => {}
    }
    if let Some(rate) = limits.rate {
        let (given, next) = starts::give(tx, queue, worker, &rate, &need.starts)?;
        (share.starts, share.next_start) = (Some(given), next);
    }
    Ok(share)
}
