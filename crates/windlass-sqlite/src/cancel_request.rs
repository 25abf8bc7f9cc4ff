//! Requests to cancel jobs that workers hold. Who holds such a job is told by its heartbeat; whatever would bring the job
//! back cancels it.

use crate::{
    error::Outcome,
    locate::{Finder, Log, Place},
    tx::Tx,
};
use rusqlite::params;
use windlass_core::{JobId, JobState, WorkerId};

const ADD: &str = "INSERT OR REPLACE INTO cancel_request (job, worker) VALUES (?1, ?2)";
const TAKE: &str = "DELETE FROM cancel_request WHERE job = ?1";
const OF_WORKER: &str = "SELECT job FROM cancel_request WHERE worker = ?1 ORDER BY job";
const FORGET: &str = "DELETE FROM cancel_request WHERE worker = ?1";

/// Somebody wants a job cancelled that this worker holds.
pub(crate) fn add(tx: &Tx<'_>, job: JobId, worker: i32) -> Outcome<()> {
    tx.conn.prepare_cached(ADD)?.execute(params![job.0, worker])?;
    Ok(())
}

/// The job leaves its worker, and does not simply complete: whether somebody wanted it cancelled.
pub(crate) fn take(tx: &Tx<'_>, job: JobId) -> Outcome<bool> {
    Ok(tx.conn.prepare_cached(TAKE)?.execute([job.0])? > 0)
}

/// The jobs that the worker holds and that are to be cancelled. Requests for those that completed are removed.
pub(crate) fn of_worker(tx: &Tx<'_>, worker: WorkerId) -> Outcome<Vec<JobId>> {
    let mut find = tx.conn.prepare_cached(OF_WORKER)?;
    let asked: Vec<i64> = find.query_map([worker.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut held = Vec::with_capacity(asked.len());
    // There may be as many as it holds: neighbours are of one claim, which is read once.
    let (mut finder, mut log) = (Finder::within(tx), Log::new(tx.conn));
    for job in asked.into_iter().map(JobId) {
        let state = match finder.find(job)? {
            Some(Place::Log { pos }) => Some(log.state(pos, job.0)?.state),
            _ => None,
        };
        match state {
            Some(JobState::Running) => held.push(job),
            _ => drop(take(tx, job)?),
        }
    }
    Ok(held)
}

/// The worker ended, and what it held was seen to.
pub(crate) fn forget(tx: &Tx<'_>, worker: WorkerId) -> Outcome<()> {
    tx.conn.prepare_cached(FORGET)?.execute([worker.0])?;
    Ok(())
}
