//! Lanes that had no job for two days are removed, and the queues that have none left: one look at all of them each hour, in chunks.
//!
//! The counts of a lane say that it has no job, and `idle_since` since when: whoever changes the counts takes it back. What names the lane
//! beside its jobs is what can be told of them as events, or is to be counted; that has to be past as well. Other programs remember the lane's
//! number and are told to forget it (`older.rs`); a new lane gets it.

use crate::{
    clock::Micros,
    error::Outcome,
    idle_queues,
    older::{self, Older},
    position,
    tx::Tx,
};
use rusqlite::{Connection, params};

/// How long a lane or a queue stays unused before it is removed. As in PostgreSQL's `forget_lanes`.
const UNUSED: Micros = 2 * 24 * HOUR;
/// How often all are looked at.
const HOUR: Micros = 3_600_000_000;
/// The most lanes, or queues, that one transaction looks at.
const CHUNK: usize = 500;

const LOOK: &str = "SELECT lanes_looked_at, look_lane, look_queue FROM log_state";
const BEGIN: &str = "UPDATE log_state SET lanes_looked_at = ?1";
const GOES_ON: &str = "UPDATE log_state SET look_lane = ?1, look_queue = ?2";
const LANES: &str = "SELECT id, queue, idle_since, coalesce(idle_n, 0), coalesce(idle_sequence, 0),
    (available, running, completed, scheduled, retryable, no_handler, cancelled, discarded) = (0, 0, 0, 0, 0, 0, 0, 0)
    FROM lane WHERE id > ?1 ORDER BY id LIMIT ?2";
const IDLE: &str = "UPDATE lane SET idle_since = ?2, idle_n = (SELECT coalesce(max(n), 0) FROM happened),
    idle_sequence = ?3 WHERE id = ?1";
const TOLD: &str = "SELECT min(kept_n, (SELECT n FROM counter_fold)),
    coalesce((SELECT min(first) FROM enqueued_range WHERE first > kept_sequence), ?1) FROM event_log";
// The counts say so, and it costs little to make sure. A lane of a keyed queue stays with the limits of its keys.
const IS_NAMED: &str = "SELECT EXISTS (SELECT 1 FROM job WHERE pos BETWEEN ?2 AND ?3)
    OR EXISTS (SELECT 1 FROM claim WHERE lo BETWEEN ?2 AND ?3)
    OR EXISTS (SELECT 1 FROM settlement WHERE claim BETWEEN ?2 AND ?3)
    OR EXISTS (SELECT 1 FROM result WHERE claim BETWEEN ?2 AND ?3)
    OR EXISTS (SELECT 1 FROM held_job WHERE pos BETWEEN ?2 AND ?3)
    OR EXISTS (SELECT 1 FROM waiting WHERE lane IN (?1, ?1 + 1))
    OR EXISTS (SELECT 1 FROM dead WHERE lane IN (?1, ?1 + 1))
    OR EXISTS (SELECT 1 FROM keyed_lane WHERE lane = ?1 AND NOT ended)
    OR EXISTS (SELECT 1 FROM keyed_lane WHERE lane = ?1 AND ended)";
const FREE: &str = "INSERT INTO free_lane (id) VALUES (?1)";
const OF_QUEUE: &str = "UPDATE queue SET idle_since = coalesce(idle_since, ?2) WHERE id = ?1";

struct Lane {
    id: i32,
    queue: i64,
    idle_since: Option<Micros>,
    idle_n: i64,
    idle_sequence: i64,
    unused: bool,
}

/// Up to where events cannot be told any more and are counted: this row of `happened`, and all before this number of the sequence.
struct Past {
    n: i64,
    sequence: i64,
}

/// One chunk of work. Whether there may be more.
pub(crate) fn forget(tx: &mut Tx<'_>) -> Outcome<bool> {
    let (looked_at, lane, queue): (Option<Micros>, Option<i64>, Option<i64>) =
        tx.conn.prepare_cached(LOOK)?.query_one([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if lane.or(queue).is_none() {
        if looked_at.is_some_and(|at| (at..at + HOUR).contains(&tx.now)) {
            return Ok(false);
        }
        tx.conn.prepare_cached(BEGIN)?.execute([tx.now])?;
    }
    tx.flush()?;
    let older = older::look(tx, UNUSED)?;
    let (lane, queue) = match queue {
        None => match look(tx, lane.unwrap_or(0), &older)? {
            Some(lane) => (Some(lane), None),
            None => (None, Some(0)),
        },
        Some(after) => (None, idle_queues::look(tx, after, CHUNK, older.gone.then_some(tx.now - UNUSED))?),
    };
    tx.conn.prepare_cached(GOES_ON)?.execute(params![lane, queue])?;
    Ok(lane.or(queue).is_some())
}

/// Looks at the lanes after this one. The last of them, if there may be more.
fn look(tx: &mut Tx<'_>, after: i64, older: &Older) -> Outcome<Option<i64>> {
    let lanes = lanes(tx.conn, after)?;
    let past = tx
        .conn
        .prepare_cached(TOLD)?
        .query_one([tx.mark()], |row| Ok(Past { n: row.get(0)?, sequence: row.get(1)? }))?;
    let mut removed = false;
    for lane in lanes.iter().filter(|lane| lane.unused) {
        match lane.idle_since.filter(|&since| older.wrote_at.is_none_or(|wrote_at| since > wrote_at)) {
            None => drop(tx.conn.prepare_cached(IDLE)?.execute(params![lane.id, tx.now, tx.mark()])?),
            Some(since) => {
                let may_go = older.gone && since <= tx.now - UNUSED && lane.is_past(&past);
                removed |= may_go && remove(tx.conn, lane)?;
            }
        }
    }
    if removed {
        older::shut_out(tx)?;
    }
    Ok((lanes.len() == CHUNK).then(|| lanes.last().map_or(0, |lane| lane.id.into())))
}

impl Lane {
    fn is_past(&self, past: &Past) -> bool {
        self.idle_n <= past.n && self.idle_sequence <= past.sequence
    }
}

fn lanes(conn: &Connection, after: i64) -> Outcome<Vec<Lane>> {
    let mut find = conn.prepare_cached(LANES)?;
    let rows = find.query_map(params![after, CHUNK as i64], |row| {
        Ok(Lane {
            id: row.get(0)?,
            queue: row.get(1)?,
            idle_since: row.get(2)?,
            idle_n: row.get(3)?,
            idle_sequence: row.get(4)?,
            unused: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes a lane unless something names it. Whether it did.
fn remove(conn: &Connection, lane: &Lane) -> Outcome<bool> {
    let end = position::at(position::direct(lane.id), position::SEQUENCE_MAX);
    let range = params![lane.id, position::at(lane.id, 0), end];
    if conn.prepare_cached(IS_NAMED)?.query_one(range, |row| row.get(0))? {
        return Ok(false);
    }
    conn.prepare_cached("DELETE FROM lane WHERE id = ?1")?.execute([lane.id])?;
    conn.prepare_cached(FREE)?.execute([lane.id])?;
    conn.prepare_cached(OF_QUEUE)?.execute(params![lane.queue, lane.idle_since])?;
    Ok(true)
}
