//! Housekeeping: what is past retention goes, in small transactions.
//!
//! The unit is a claim: its jobs are adjacent in the log, so a finished claim is removed with one range
//! delete, and unfinished claims around it do not matter. That makes each claim a segment of its own;
//! nothing has to be moved on or re-homed. Freed pages are reused by the next jobs.

use crate::{
    audit,
    clock::{Micros, micros},
    error::Outcome,
    fold, forget_events, forget_numbers, idle_lanes, key_upkeep, once, position, report,
    retention::{self, Past},
    settings, starts, timings,
    tx::{Count, Tx},
    unique,
};
use rusqlite::params;
use windlass_core::{JobState, MaintainReport, Retention, RetentionRule, Settings};

/// About how many jobs one transaction removes, so that others need not wait long.
const CHUNK_JOBS: i64 = 10_000;
/// The most claims, dead jobs, workers or keys that one transaction looks at.
const CHUNK_ROWS: u32 = 1_000;
/// A transaction removes no further job or claim when it has set so many pages free, 16 MiB: those of large args are read for that.
const CHUNK_PAGES: i64 = 4_096;

const FINISHED: &str =
    "SELECT lo, hi, completed, moved, coalesce(changed, 0) FROM claim WHERE open = 0 AND finished_at <= ?1
    ORDER BY finished_at LIMIT ?2";
/// What ended in the future did so before the clock was set back, and before what ended since: a minute ago, say. By count it would be what is kept, and what
/// ends from now on would go.
const ENDS_TO_COME: &str =
    "UPDATE dead SET finished_at = ?1 - 60000000 WHERE id IN (SELECT id FROM dead WHERE finished_at > ?1
    ORDER BY finished_at LIMIT ?2)";
const DEAD: &str = "SELECT id, lane, state FROM dead WHERE finished_at <= ?1 ORDER BY finished_at LIMIT ?2";
const ERRORS_OF_CLAIM: &str = "DELETE FROM attempt_error WHERE job IN
    (SELECT id FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NOT NULL)";
const WORKERS: &str = "DELETE FROM worker WHERE id IN (SELECT id FROM worker WHERE ended_at <= ?1
    AND NOT EXISTS (SELECT 1 FROM claim WHERE claim.worker = worker.id AND open > 0) ORDER BY ended_at LIMIT ?2)";

/// What one chunk of work does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// It may count what ended, beside what has to be counted before it is removed.
    pub(crate) may_count: bool,
    /// It looks for dead jobs in the queues after this one; `None`: in none, those before it looked at all.
    pub(crate) dead_after: Option<i64>,
}

impl Chunk {
    pub(crate) const FIRST: Self = Self { may_count: true, dead_after: Some(0) };
}

/// One chunk of work. Also says what the next one does, if there may be more.
pub(crate) fn maintain(tx: &mut Tx<'_>, chunk: Chunk) -> Outcome<(MaintainReport, Option<Chunk>)> {
    let settings = settings::read(tx.conn)?;
    let rules = retention::read(tx.conn)?;
    let before = tx.now.saturating_sub(micros(settings.retention));
    let completed = tx.now.saturating_sub(micros(Retention::of_completed(&rules, &settings)));
    let (counted, more_to_count) = fold::fold(tx, completed, CHUNK_ROWS, chunk.may_count)?;
    let enough = free_pages(tx)? + CHUNK_PAGES;
    let (truncated, more_claims) = remove_claims(tx, completed, counted, enough)?;
    let (removed_dead, dead_after) = remove_dead(tx, &rules, &settings, chunk.dead_after, enough)?;
    let removed_workers = tx.conn.prepare_cached(WORKERS)?.execute(params![before, CHUNK_ROWS])?;
    let more_keys = once::forget(tx, before, CHUNK_ROWS)? == CHUNK_ROWS as usize;
    let more_unique = unique::forget(tx, CHUNK_ROWS)?;
    let more_starts = starts::forget(tx)?;
    let more_events = forget_events::remove(tx, before)?;
    let more_numbers = forget_numbers::forget(tx)?;
    let more_turns = key_upkeep::keep(tx)?;
    let more_audit = audit::forget(tx, &settings)?;
    let more_timings = timings::keep(tx)?;
    let more_counters = fold::forget(tx)?;
    let more_lanes = idle_lanes::forget(tx)?;
    let more_counters = more_counters || chunk.may_count && more_to_count;
    let report = MaintainReport { rotated: false, truncated, rehomed: 0, removed_dead };
    let more = more_claims
        || dead_after.is_some()
        || removed_workers == CHUNK_ROWS as usize
        || more_counters
        || more_events
        || more_numbers
        || more_keys
        || more_unique
        || more_starts
        || more_turns
        || more_audit
        || more_timings
        || more_lanes;
    Ok((report, more.then_some(Chunk { dead_after, ..chunk })))
}

/// How many pages of the file are free.
fn free_pages(tx: &Tx<'_>) -> Outcome<i64> {
    Ok(tx.conn.prepare_cached("PRAGMA freelist_count")?.query_one([], |row| row.get(0))?)
}

/// Until so many pages are free.
fn remove_claims(tx: &mut Tx<'_>, before: Micros, counted: i64, enough: i64) -> Outcome<(u32, bool)> {
    let finished: Vec<(i64, i64, i64, bool, i64)> = tx
        .conn
        .prepare_cached(FINISHED)?
        .query_map(params![before, CHUNK_ROWS], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?
        .collect::<Result<_, _>>()?;
    let (mut removed, mut jobs) = (0, 0);
    for &(lo, hi, completed, moved, changed) in &finished {
        if jobs >= CHUNK_JOBS || changed > counted || free_pages(tx)? >= enough {
            break;
        }
        report::forget_claim(tx, (lo, hi), moved, completed)?;
        if moved {
            tx.conn.prepare_cached(ERRORS_OF_CLAIM)?.execute([lo, hi])?;
        }
        tx.conn.prepare_cached("DELETE FROM job WHERE pos BETWEEN ?1 AND ?2")?.execute([lo, hi])?;
        tx.conn.prepare_cached("DELETE FROM settlement WHERE claim = ?1")?.execute([lo])?;
        tx.conn.prepare_cached("DELETE FROM result WHERE claim = ?1")?.execute([lo])?;
        tx.conn.prepare_cached("DELETE FROM claim WHERE lo = ?1")?.execute([lo])?;
        forget_events::forget(tx, changed, position::sequence_of(hi))?;
        tx.count(position::lane_of(lo), Count::Completed, -completed);
        jobs += completed;
        removed += 1;
    }
    Ok((removed, (removed as usize) < finished.len() || removed == CHUNK_ROWS))
}

/// How many were removed, until so many pages are free, and where the next look goes on, if there may be more.
fn remove_dead(
    tx: &mut Tx<'_>,
    rules: &[RetentionRule],
    settings: &Settings,
    looks_after: Option<i64>,
    enough: i64,
) -> Outcome<(u64, Option<i64>)> {
    let Some(looks_after) = looks_after else { return Ok((0, None)) };
    if tx.conn.prepare_cached(ENDS_TO_COME)?.execute(params![tx.now, CHUNK_ROWS])? == CHUNK_ROWS as usize {
        return Ok((0, Some(looks_after)));
    }
    let Past { jobs, after } = match rules.iter().all(|rule| rule.outcome == JobState::Completed) {
        true => dead_before(tx, tx.now.saturating_sub(micros(settings.dead_retention)))?,
        false => retention::past(tx, rules, settings, looks_after, CHUNK_ROWS)?,
    };
    for (removed, &(id, lane, state)) in (0..).zip(&jobs) {
        if free_pages(tx)? >= enough {
            return Ok((removed, Some(looks_after)));
        }
        tx.conn.prepare_cached("DELETE FROM attempt_error WHERE job = ?1")?.execute([id])?;
        report::forget(tx, id)?;
        tx.conn.prepare_cached("DELETE FROM dead WHERE id = ?1")?.execute([id])?;
        tx.count(lane, crate::moves::Dead::of(state).count(), -1);
    }
    Ok((jobs.len() as u64, after))
}

fn dead_before(tx: &Tx<'_>, before: Micros) -> Outcome<Past> {
    let mut find = tx.conn.prepare_cached(DEAD)?;
    let rows =
        find.query_map(params![before, CHUNK_ROWS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let jobs: Vec<_> = rows.collect::<Result<_, _>>()?;
    Ok(Past { after: (jobs.len() == CHUNK_ROWS as usize).then_some(0), jobs })
}

/// Adds up the chunks of one call.
pub(crate) fn add(total: &mut MaintainReport, chunk: MaintainReport) {
    total.truncated = total.truncated.saturating_add(chunk.truncated);
    total.removed_dead += chunk.removed_dead;
}
