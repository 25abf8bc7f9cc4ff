//! The lanes of a queue that have work, in the order in which they are served: best priority first, but none
//! starves.

use crate::{clock::Micros, error::Outcome, locate, names, position, tx::Tx};
use rusqlite::OptionalExtension;
use std::collections::HashSet;

/// How long the jobs of a lane may wait behind better lanes, in microseconds. As in PostgreSQL's `lanes_with_work`.
const PATIENCE: Micros = 10_000_000;
/// One in this many claims looks for a lane that starves; the others do not pay for it.
const LOOK_EVERY: u32 = 16;
/// The most queues of a claim that are asked one by one, whatever number of lanes there is.
const FEW: usize = 16;
/// To ask for the lanes of a queue costs about as much as to look at so many lanes.
const ALIKE: usize = 16;

const LANES: &str =
    "SELECT lane.id, priority, cursor, available, no_handler, queue, concurrency IS NOT NULL OR rate IS NOT NULL, keyed FROM lane JOIN queue ON queue.id = lane.queue
    WHERE queue.name = ?1 AND paused IN (0, 2, 11) AND (available > 0 OR no_handler > 0) ORDER BY priority";
const WITH_WORK: &str =
    "SELECT name FROM queue WHERE id IN (SELECT queue FROM lane WHERE available > 0 OR no_handler > 0)";
const CLAIMED: &str = "SELECT claimed_at FROM claim WHERE lo BETWEEN ?1 AND ?2 ORDER BY lo DESC LIMIT 1";
const NO_HANDLER: &str =
    "SELECT available_at FROM waiting WHERE lane = ?1 AND state = 2 ORDER BY available_at LIMIT 1";
const ENQUEUED: &str = "SELECT enqueued_at FROM job WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT 1";

pub(crate) struct Lane {
    pub(crate) id: i32,
    pub(crate) priority: i16,
    pub(crate) cursor: i64,
    pub(crate) available: i64,
    /// Jobs without a handler.
    pub(crate) no_handler: i64,
    pub(crate) queue: i64,
    /// Whether its queue has limits.
    pub(crate) limited: bool,
    /// Whether its queue has limits of keys.
    pub(crate) keyed: bool,
}

impl Lane {
    /// The positions behind the cursor.
    pub(crate) fn ahead(&self) -> (i64, i64) {
        (self.cursor + 1, position::at(self.id, position::SEQUENCE_MAX))
    }
}

/// The queues that may have work, where a claim asks for so many that a look at all lanes costs less.
pub(crate) fn with_work(tx: &Tx<'_>, queues: usize) -> Outcome<Option<HashSet<String>>> {
    if queues <= FEW {
        return Ok(None);
    }
    if names::most_lanes(tx.conn)? as usize > queues * ALIKE {
        return Ok(None);
    }
    let mut find = tx.conn.prepare_cached(WITH_WORK)?;
    Ok(Some(find.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?))
}

pub(crate) fn of_queue(tx: &Tx<'_>, queue: &str) -> Outcome<Vec<Lane>> {
    let mut find = tx.conn.prepare_cached(LANES)?;
    let rows = find.query_map([queue], |row| {
        Ok(Lane {
            id: row.get(0)?,
            priority: row.get(1)?,
            cursor: row.get(2)?,
            available: row.get(3)?,
            no_handler: row.get(4)?,
            queue: row.get(5)?,
            limited: row.get(6)?,
            keyed: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The lanes that have waited too long behind better lanes, longest first. The first of them that may have a job is served before all others.
pub(crate) fn starving(tx: &Tx<'_>, lanes: &[Lane]) -> Outcome<Vec<usize>> {
    if lanes.len() < 2 || fastrand::u32(..LOOK_EVERY) > 0 {
        return Ok(Vec::new());
    }
    let mut starving = Vec::new();
    for (nth, lane) in lanes.iter().enumerate().skip(1) {
        if let Some(since) = since(tx, lane)?
            // Later than now: the clock was set back, and nobody knows how long it has waited.
            && !(tx.now - PATIENCE..=tx.now).contains(&since)
        {
            starving.push((since, nth));
        }
    }
    starving.sort_unstable();
    Ok(starving.into_iter().map(|(_, nth)| nth).collect())
}

/// Since when its next job has waited and nothing was claimed; `None` when it has no job.
fn since(tx: &Tx<'_>, lane: &Lane) -> Outcome<Option<Micros>> {
    let first = |sql: &str, (from, to): (i64, i64)| -> Outcome<Option<Micros>> {
        Ok(tx.conn.prepare_cached(sql)?.query_one([from, to], |row| row.get(0)).optional()?)
    };
    let waits = match first(ENQUEUED, lane.ahead())? {
        None if lane.no_handler > 0 => locate::first(tx.conn, NO_HANDLER, lane.id.into(), |row| row.get(0))?,
        enqueued => enqueued,
    };
    let Some(waits) = waits else { return Ok(None) };
    // Jobs that waited for a handler, and all of a keyed lane, were claimed in the twin.
    let claims = [lane.id, position::direct(lane.id)];
    let claims = claims.map(|lane| (position::at(lane, 0), position::at(lane, position::SEQUENCE_MAX)));
    let claimed = first(CLAIMED, claims[0])?.max(first(CLAIMED, claims[1])?);
    Ok(claimed.max(Some(waits)))
}
