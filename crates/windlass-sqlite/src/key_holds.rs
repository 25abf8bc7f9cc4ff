//! Jobs of keyed lanes that leave their place: whom they made wait, and who goes on.

use crate::{error::Outcome, keyed::FIRST, keyed::KeyedLane, position, tx::Tx};
use rusqlite::{OptionalExtension, params};

const LET_GO: &str = "DELETE FROM held_job WHERE pos = ?1 RETURNING queue, key, job";
const LET_GO_ALL: &str = "DELETE FROM held_job WHERE pos BETWEEN ?1 AND ?2 RETURNING queue, key";
const LET_GO_OF_CLAIM: &str =
    "DELETE FROM held_job WHERE pos BETWEEN ?1 AND ?2 AND job BETWEEN ?3 AND ?4 RETURNING queue, key";
const LET_GO_RANGE: &str = "DELETE FROM held_job WHERE pos IN
    (SELECT pos FROM job INDEXED BY job_moved WHERE id BETWEEN ?3 AND ?4 AND id IS NOT NULL AND pos BETWEEN ?1 AND ?2
    UNION ALL SELECT pos FROM job WHERE pos BETWEEN max(?1, ?5) AND min(?2, ?6) AND id IS NULL) RETURNING queue, key";
const BLOCK: &str = "INSERT OR REPLACE INTO key_blocker (job, queue, key) SELECT ?1, ?2, ?3
    WHERE coalesce((SELECT serial FROM key_limit WHERE queue = ?2 AND key = ?3), (SELECT serial FROM key_limit WHERE queue = ?2 AND key = ''))";
const BLOCKS: &str = "SELECT 1 FROM key_blocker WHERE job = ?1 AND queue = ?2 AND key = ?3";
const UNBLOCK: &str = "DELETE FROM key_blocker WHERE job = ?1 RETURNING queue, key";
const OF_JOB: &str =
    "SELECT coalesce(id, pos & 35184372088831), coalesce(attributes ->> '$.key', '') FROM job WHERE pos = ?1";
const TAKE_OUT: &str = "DELETE FROM keyed_job WHERE n = ?1 AND key = ?2 AND ord IN (?3, ?4, ?5) AND pos = ?6";
const NOTHING_LEFT: &str = "UPDATE key_turn SET state = 2, due = NULL WHERE n = ?1 AND key = ?2
    AND NOT EXISTS (SELECT 1 FROM keyed_job WHERE n = ?1 AND key = ?2)";

/// What becomes of a job that leaves its place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It will be handed out again: of a serial key the others wait for it.
    ForAWhile,
    /// It is over, or of another queue.
    ForGood,
}

impl Leaves {
    /// From one lane to another.
    pub(crate) fn of_lane(tx: &mut Tx<'_>, from: i32, to: i32) -> Self {
        let queue = |lane| tx.keyed().lane(lane).map(|lane| lane.queue);
        match [from, to].map(queue) {
            [Some(from), Some(to)] if from == to => Self::ForAWhile,
            _ => Self::ForGood,
        }
    }
}

/// A job is about to leave its place in the log, before its row does.
pub(crate) fn leave(tx: &mut Tx<'_>, pos: i64, leaves: Leaves) -> Outcome<()> {
    let Some(lane) = tx.keyed().lane(position::lane_of(pos)) else { return Ok(()) };
    let mut let_go = tx.conn.prepare_cached(LET_GO)?;
    let held: Option<(i64, String, i64)> =
        let_go.query_one([pos], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    if let Some((queue, key, job)) = held {
        let blocks = leaves == Leaves::ForAWhile
            && tx.conn.prepare_cached(BLOCK)?.execute(params![job, queue, key])? > 0;
        tx.keyed().change(queue, key, -1, i64::from(blocks));
        return Ok(());
    }
    take_out(tx, lane, pos, leaves)
}

/// An available job leaves, or one whose key has no limit.
fn take_out(tx: &mut Tx<'_>, lane: KeyedLane, pos: i64, leaves: Leaves) -> Outcome<()> {
    let mut find = tx.conn.prepare_cached(OF_JOB)?;
    let found: Option<(i64, String)> =
        find.query_one([pos], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((job, key)) = found else { return Ok(()) };
    let entry = params![lane.n, key, job, job - FIRST, position::sequence_of(pos), pos];
    if tx.conn.prepare_cached(TAKE_OUT)?.execute(entry)? > 0 {
        tx.conn.prepare_cached(NOTHING_LEFT)?.execute(params![lane.n, key])?;
    }
    if leaves == Leaves::ForGood { over(tx, job) } else { Ok(()) }
}

/// A job that no worker holds becomes one of this queue and key: nobody of another waits for it any more.
pub(crate) fn over_elsewhere(tx: &mut Tx<'_>, job: i64, queue: i64, key: Option<&str>) -> Outcome<()> {
    let mut same = tx.conn.prepare_cached(BLOCKS)?;
    if !tx.keyed().is_empty() && same.exists(params![job, queue, key])? {
        return Ok(());
    }
    over(tx, job)
}

/// A job that no worker holds is over, or of another queue: nobody waits for it.
pub(crate) fn over(tx: &mut Tx<'_>, job: i64) -> Outcome<()> {
    if tx.keyed().is_empty() {
        return Ok(());
    }
    let mut unblock = tx.conn.prepare_cached(UNBLOCK)?;
    let key = unblock.query_one([job], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((queue, key)) = key {
        tx.keyed().change(queue, key, 0, -1);
    }
    Ok(())
}

/// All jobs of a claim, from `lo` to `hi`, that are not settled completed.
pub(crate) fn rested(tx: &mut Tx<'_>, (lo, hi): (i64, i64)) -> Outcome<()> {
    if tx.keyed().lane(position::lane_of(lo)).is_none() {
        return Ok(());
    }
    let_go(tx, LET_GO_ALL, &[lo, hi])
}

/// The jobs of a claim with these ids completed.
pub(crate) fn completed(tx: &mut Tx<'_>, (lo, hi): (i64, i64), first: i64, last: i64) -> Outcome<()> {
    if tx.keyed().lane(position::lane_of(lo)).is_none() {
        return Ok(());
    }
    // Ids of other claims may lie between, more than this one has jobs.
    if last.saturating_sub(first) >= hi - lo {
        return let_go(tx, LET_GO_OF_CLAIM, &[lo, hi, first, last]);
    }
    let place = |id: i64| position::at(position::lane_of(lo), id.clamp(0, position::SEQUENCE_MAX));
    let_go(tx, LET_GO_RANGE, &[lo, hi, first, last, place(first), place(last)])
}

fn let_go(tx: &mut Tx<'_>, sql: &str, range: &[i64]) -> Outcome<()> {
    let mut let_go = tx.conn.prepare_cached(sql)?;
    let mut rows = let_go.query(rusqlite::params_from_iter(range))?;
    while let Some(row) = rows.next()? {
        tx.keyed().change(row.get(0)?, row.get(1)?, -1, 0);
    }
    Ok(())
}
