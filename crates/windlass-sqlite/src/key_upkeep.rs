//! Housekeeping of keyed lanes: keys without jobs are forgotten, and what programs did that do not know keys is found out.

use crate::{
    error::Outcome,
    key_holds, key_rates,
    keyed::{FIRST, KeyedLane},
    locate::{self, Log, Place},
    position,
    tx::Tx,
};
use rusqlite::{OptionalExtension, params};
use windlass_core::{JobId, JobState};

/// The most rows of one kind that one transaction looks at.
const CHUNK: i64 = 1_000;
/// It looks at no further lane or queue when it has removed so many rows of those before.
const ROWS: i64 = 10_000;
/// The most lanes, and queues, that it looks at: any of them, so that each has its turn.
const LANES: usize = 200;

const ENDED: &str = "SELECT n FROM keyed_lane WHERE ended LIMIT 1";
const REMOVE_JOBS: &str =
    "DELETE FROM keyed_job WHERE (n, key, ord) IN (SELECT n, key, ord FROM keyed_job WHERE n = ?1 LIMIT ?2)";
const REMOVE_TURNS: &str =
    "DELETE FROM key_turn WHERE (n, key) IN (SELECT n, key FROM key_turn WHERE n = ?1 LIMIT ?2)";
// What a key had counts until the virtual time has caught up with it, or nobody else is there.
const FORGET: &str = "DELETE FROM key_turn WHERE (n, key) IN (SELECT n, key FROM key_turn WHERE n = ?1 AND state = 2
    AND (vt <= (SELECT l.vt FROM keyed_lane l WHERE l.n = ?1) OR NOT EXISTS (SELECT 1 FROM key_turn t WHERE t.n = ?1 AND t.state = 0)) LIMIT ?2)";
const IS_EMPTY: &str =
    "SELECT NOT EXISTS (SELECT 1 FROM job WHERE pos BETWEEN cursor + 1 AND ?2) FROM lane WHERE id = ?1";
const NO_TURNS: &str = "UPDATE key_turn SET state = 2, due = NULL WHERE n = ?1 AND state < 2
    AND NOT EXISTS (SELECT 1 FROM keyed_job j WHERE j.n = key_turn.n AND j.key = key_turn.key)";
const HELD: &str =
    "SELECT pos, job FROM held_job WHERE pos > (SELECT held_checked FROM log_state) ORDER BY pos LIMIT ?1";
const CHECKED: &str = "UPDATE log_state SET held_checked = ?1 WHERE held_checked <> ?1";
const IS_THERE: &str = "SELECT coalesce(id, pos & 35184372088831) FROM job WHERE pos = ?1";
const BLOCKERS: &str = "SELECT job FROM key_blocker WHERE job >= ?1 ORDER BY job LIMIT ?2";
const GOES_FIRST: &str = "UPDATE OR REPLACE keyed_job SET ord = ord - ?2 WHERE ord = ?1
    AND n IN (SELECT n FROM keyed_lane WHERE NOT ended) AND key = (SELECT key FROM key_blocker WHERE job = ?1)";

/// One chunk of work. Whether there may be more.
pub(crate) fn keep(tx: &mut Tx<'_>) -> Outcome<bool> {
    if !tx.keyed().was_ever() {
        return Ok(false);
    }
    tx.flush()?;
    let more = remove_ended(tx)? | forget_some(tx)?;
    check_held(tx)?;
    check_blockers(tx)?;
    Ok(more)
}

/// What keys had that have no jobs, and what counts no more because of its rate. Whether there may be more.
fn forget_some(tx: &mut Tx<'_>) -> Outcome<bool> {
    let (mut more, mut left) = (false, ROWS);
    for lane in fastrand::choose_multiple(tx.keyed().all(), LANES) {
        let (removed, most_of_one) = forget_idle(tx, &lane)?;
        left -= removed;
        more |= most_of_one == CHUNK;
        if left <= 0 {
            return Ok(true);
        }
    }
    for queue in fastrand::choose_multiple(tx.keyed().with_rates(), LANES) {
        let (removed, goes_on) = key_rates::forget_past(tx.conn, queue, tx.now, left)?;
        if goes_on {
            tx.wake()?;
        }
        left -= removed;
        if left <= 0 {
            return Ok(true);
        }
    }
    Ok(more)
}

fn remove_ended(tx: &Tx<'_>) -> Outcome<bool> {
    let ended: Option<i64> = tx.conn.prepare_cached(ENDED)?.query_one([], |row| row.get(0)).optional()?;
    let Some(n) = ended else { return Ok(false) };
    let jobs = tx.conn.prepare_cached(REMOVE_JOBS)?.execute([n, CHUNK])?;
    let turns = tx.conn.prepare_cached(REMOVE_TURNS)?.execute([n, CHUNK])?;
    if jobs + turns == 0 {
        tx.conn.prepare_cached("DELETE FROM keyed_lane WHERE n = ?1")?.execute([n])?;
    }
    Ok(true)
}

/// How many rows were removed, and how many of the kind that had most.
fn forget_idle(tx: &Tx<'_>, lane: &KeyedLane) -> Outcome<(i64, i64)> {
    let end = position::at(lane.lane, position::SEQUENCE_MAX);
    let is_empty = tx.conn.prepare_cached(IS_EMPTY)?.query_one(params![lane.lane, end], |row| row.get(0))?;
    let mut jobs = 0;
    if is_empty {
        // Jobs that another program took out.
        jobs = tx.conn.prepare_cached(REMOVE_JOBS)?.execute([lane.n, CHUNK])?;
        tx.conn.prepare_cached(NO_TURNS)?.execute([lane.n])?;
    }
    let turns = tx.conn.prepare_cached(FORGET)?.execute([lane.n, CHUNK])?;
    Ok(((jobs + turns) as i64, jobs.max(turns) as i64))
}

/// Jobs that another program settled or took from a dead worker are not held any more.
fn check_held(tx: &mut Tx<'_>) -> Outcome<()> {
    let mut find = tx.conn.prepare_cached(HELD)?;
    let held: Vec<(i64, i64)> =
        find.query_map([CHUNK], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let last = if held.len() < CHUNK as usize { 0 } else { held.last().map_or(0, |(pos, _)| *pos) };
    let mut log = Log::new(tx.conn);
    for (pos, job) in held {
        let there: Option<i64> = locate::first(tx.conn, IS_THERE, pos, |row| row.get(0))?;
        if there == Some(job) && log.state(pos, job)?.state == JobState::Running {
            continue;
        }
        let leaves =
            if is_over(tx, job)? { key_holds::Leaves::ForGood } else { key_holds::Leaves::ForAWhile };
        key_holds::leave(tx, pos, leaves)?;
        tx.conn.prepare_cached(GOES_FIRST)?.execute([job, FIRST])?;
    }
    tx.conn.prepare_cached(CHECKED)?.execute([last])?;
    Ok(())
}

/// Jobs that another program ended keep nobody waiting.
fn check_blockers(tx: &mut Tx<'_>) -> Outcome<()> {
    let from = fastrand::i64(0..tx.mark().max(1));
    let mut find = tx.conn.prepare_cached(BLOCKERS)?;
    for start in [from, 0] {
        let jobs: Vec<i64> = find.query_map([start, CHUNK], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for job in jobs {
            if is_over(tx, job)? {
                key_holds::over(tx, job)?;
            }
        }
    }
    Ok(())
}

fn is_over(tx: &Tx<'_>, job: i64) -> Outcome<bool> {
    Ok(match locate::find(tx, JobId(job))? {
        None | Some(Place::Dead { .. }) => true,
        Some(Place::Waiting { .. }) => false,
        Some(Place::Log { pos }) => Log::new(tx.conn).state(pos, job)?.state == JobState::Completed,
    })
}
