//! Completions: of a whole claim, one changed row; of a part, one small row per range of ids.
//!
//! The number of jobs is counted in the log and never taken on trust: a claim whose open jobs were counted
//! down too far would make running jobs look completed.

use crate::{
    error::Outcome,
    key_holds,
    lease::Lease,
    position,
    settlement::{Completed, CompletedJob},
    tx::Tx,
};
use rusqlite::params;
use windlass_core::{Args, JobId, JobSet, Settled};

const OVERLAP_BEFORE: &str =
    "SELECT first, last FROM settlement WHERE claim = ?1 AND first < ?2 ORDER BY first DESC LIMIT 1";
const OVERLAPS: &str =
    "SELECT first, last FROM settlement WHERE claim = ?1 AND first BETWEEN ?2 AND ?3 ORDER BY first";
const RECORD: &str = "INSERT INTO settlement (claim, first, last, at) VALUES (?1, ?2, ?3, ?4)";
const RESULT: &str = "INSERT INTO result (job, claim, result) VALUES (?1, ?2, ?3)";
const RESULTS: &str = "INSERT INTO result (job, claim, result, jobs) VALUES (?1, ?2, ?3, ?4)";
const MOVED: &str = "SELECT id FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NOT NULL";
const UNMOVED: &str = "SELECT count(*) FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NULL";

/// Completes some or all open jobs of a claim.
pub(crate) fn complete(tx: &mut Tx<'_>, lease: &mut Lease, jobs: &JobSet) -> Outcome<Settled> {
    if lease.open == 0 {
        return Ok(Settled::Already);
    }
    let completed = match jobs {
        JobSet::Rest => {
            tx.note_rest(lease.lo, lease.hi, lease.worker)?;
            key_holds::rested(tx, (lease.lo, lease.hi))?;
            lease.open
        }
        JobSet::Ranges(ranges) => record(tx, lease, ranges)?,
    };
    if completed == 0 {
        return Ok(Settled::Already);
    }
    lease.complete(tx, completed);
    Ok(Settled::Accepted)
}

/// Completes one open job, by itself.
pub(crate) fn complete_one(
    tx: &mut Tx<'_>,
    lease: &mut Lease,
    job: JobId,
    result: Option<&Args>,
) -> Outcome<()> {
    tx.conn.prepare_cached(RECORD)?.execute(params![lease.lo, job.0, job.0, tx.now])?;
    tx.note_range(lease.lo, job.0, job.0, lease.worker)?;
    key_holds::completed(tx, (lease.lo, lease.hi), job.0, job.0)?;
    if let Some(result) = result {
        tx.conn.prepare_cached(RESULT)?.execute(params![job.0, lease.lo, result.as_str()])?;
    }
    lease.complete(tx, 1);
    Ok(())
}

/// Completes jobs with their results, if all of them are open. Whether they were; if not, nothing is written.
pub(crate) fn complete_together(tx: &mut Tx<'_>, lease: &mut Lease, completed: &Completed) -> Outcome<bool> {
    let count = completed.jobs.len() as i64;
    let is_held = |job: &CompletedJob| (lease.lo..=lease.hi).contains(&job.position);
    // Positions of moved jobs do not follow from their ids.
    if lease.open < count || lease.moved || !completed.jobs.iter().all(is_held) {
        return Ok(false);
    }
    for &(first, last) in &completed.ranges {
        let free = gaps(tx, lease, first, last)? == [(first, last)];
        if !free || jobs_between(tx, lease, &[], first, last)? != last - first + 1 {
            return Ok(false);
        }
    }
    for &(first, last) in &completed.ranges {
        tx.conn.prepare_cached(RECORD)?.execute(params![lease.lo, first, last, tx.now])?;
        tx.note_range(lease.lo, first, last, lease.worker)?;
        key_holds::completed(tx, (lease.lo, lease.hi), first, last)?;
    }
    for row in &completed.rows {
        let jobs = serde_json::to_string(&row.jobs).unwrap_or_default(); // numbers can be written
        tx.conn.prepare_cached(RESULTS)?.execute(params![row.last(), lease.lo, row.results, jobs])?;
    }
    lease.complete(tx, count);
    Ok(true)
}

/// Records ranges of ids, without what was recorded before. Returns how many jobs are new.
fn record(tx: &mut Tx<'_>, lease: &Lease, ranges: &[(i64, i64)]) -> Outcome<i64> {
    let moved = moved_ids(tx, lease)?;
    let mut completed = 0;
    for &(first, last) in ranges {
        for (first, last) in gaps(tx, lease, first, last)? {
            let jobs = jobs_between(tx, lease, &moved, first, last)?;
            if jobs > 0 {
                tx.conn.prepare_cached(RECORD)?.execute(params![lease.lo, first, last, tx.now])?;
                tx.note_range(lease.lo, first, last, lease.worker)?;
                key_holds::completed(tx, (lease.lo, lease.hi), first, last)?;
                completed += jobs;
            }
        }
    }
    Ok(completed)
}

/// The ids of a claim's jobs that are not where they were first appended. None on the hot path.
fn moved_ids(tx: &Tx<'_>, lease: &Lease) -> Outcome<Vec<i64>> {
    if !lease.moved {
        return Ok(Vec::new());
    }
    let mut find = tx.conn.prepare_cached(MOVED)?;
    let mut ids: Vec<i64> =
        find.query_map([lease.lo, lease.hi], |row| row.get(0))?.collect::<Result<_, _>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// The parts of a range that no settlement of the claim names yet.
fn gaps(tx: &Tx<'_>, lease: &Lease, first: i64, last: i64) -> Outcome<Vec<(i64, i64)>> {
    let (mut gaps, mut next) = (Vec::new(), first);
    let mut before = tx.conn.prepare_cached(OVERLAP_BEFORE)?;
    let mut rows = before.query([lease.lo, first])?;
    if let Some(row) = rows.next()? {
        next = next.max(row.get::<_, i64>(1)?.saturating_add(1));
    }
    let mut within = tx.conn.prepare_cached(OVERLAPS)?;
    let mut rows = within.query([lease.lo, first, last])?;
    while let Some(row) = rows.next()? {
        let (from, to): (i64, i64) = (row.get(0)?, row.get(1)?);
        if next < from {
            gaps.push((next, from - 1));
        }
        next = next.max(to.saturating_add(1));
    }
    if next <= last {
        gaps.push((next, last));
    }
    Ok(gaps)
}

fn jobs_between(tx: &Tx<'_>, lease: &Lease, moved: &[i64], first: i64, last: i64) -> Outcome<i64> {
    let among_moved = moved.partition_point(|id| *id <= last) - moved.partition_point(|id| *id < first);
    let lane = lease.lane();
    let lo = lease.lo.max(position::at(lane, first.clamp(0, position::SEQUENCE_MAX)));
    let hi = lease.hi.min(position::at(lane, last.clamp(0, position::SEQUENCE_MAX)));
    // Each position of the claim has a job, which is where it was appended: there is nothing to count.
    if !lease.moved && lease.open + lease.completed == lease.hi - lease.lo + 1 {
        return Ok((hi - lo + 1).max(0));
    }
    let unmoved: i64 = tx.conn.prepare_cached(UNMOVED)?.query_one([lo, hi], |row| row.get(0))?;
    Ok(unmoved + among_moved as i64)
}
