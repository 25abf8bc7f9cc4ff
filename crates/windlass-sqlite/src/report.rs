//! What handlers say of their jobs while they run: a row beside each job of which anything was said.

use crate::{
    clock::timestamp,
    error::{Fault, Outcome},
    lease::Lease,
    locate::first,
    position,
    tx::Tx,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::{
    Args, ErrorKind, HandlerReport, JobId, JobReport, Progress, ReportRequest, Reported, WorkerId,
};

const AT: &str = "SELECT coalesce(id, pos & 35184372088831) FROM job WHERE pos = ?1";
const FIND: &str = "SELECT at, attempt, percent, note, checkpoint, log, log_dropped, claim, number
    FROM job_report WHERE job = ?1";
const CHECKPOINT: &str = "SELECT checkpoint FROM job_report WHERE job = ?1";
const SAVE: &str =
    "INSERT INTO job_report (job, claim, number, at, attempt, percent, note, checkpoint, log, log_dropped)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (job) DO UPDATE SET claim = ?2, number = ?3, at = ?4, attempt = ?5, percent = ?6, note = ?7,
    checkpoint = ?8, log = ?9, log_dropped = ?10";
const FORGET: &str = "DELETE FROM job_report WHERE job = ?1";
/// How many reports there are of jobs with the ids of a claim and of those between, up to `?3`.
const BETWEEN: &str = "SELECT count(*) FROM (SELECT 1 FROM job_report
    WHERE job BETWEEN (?1 & 35184372088831) AND (?2 & 35184372088831) LIMIT ?3)";
/// Of the jobs of a claim: those that are where they were first appended, by the reports there are, or by the jobs; then the others.
const FORGET_UNMOVED: &str =
    "DELETE FROM job_report WHERE job BETWEEN (?1 & 35184372088831) AND (?2 & 35184372088831)
    AND EXISTS (SELECT 1 FROM job WHERE pos = (?1 >> 45 << 45 | job_report.job) AND id IS NULL)";
const FORGET_BY_JOBS: &str = "DELETE FROM job_report WHERE job IN
    (SELECT pos & 35184372088831 FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NULL)";
const FORGET_MOVED: &str = "DELETE FROM job_report WHERE job IN
    (SELECT id FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NOT NULL)";

/// Keeps what is new of the jobs that the worker holds.
pub(crate) fn report(tx: &mut Tx<'_>, request: &ReportRequest) -> Outcome<Vec<Reported>> {
    tx.fence(request.worker)?;
    request.reports.iter().map(|new| report_one(tx, request.worker, new)).collect()
}

fn report_one(tx: &Tx<'_>, worker: WorkerId, new: &JobReport) -> Outcome<Reported> {
    if !is_held(tx, worker, new)? {
        return Ok(Reported::Refused);
    }
    let (claim, number) = (new.claim.1.cast_signed(), i64::try_from(new.number).unwrap_or(i64::MAX));
    let mut said = match stored(tx.conn, new.job)? {
        Some((_, of, last)) if of == claim && last >= number => return Ok(Reported::Accepted),
        Some((said, ..)) => said,
        None => HandlerReport::new(timestamp(tx.now)),
    };
    said.add(new, timestamp(tx.now));
    let log = serde_json::to_string(&said.log).map_err(|cause| damaged(&cause))?;
    let (percent, note) =
        said.progress.map_or((None, None), |progress| (Some(progress.percent), progress.note));
    tx.conn.prepare_cached(SAVE)?.execute(params![
        new.job.0,
        claim,
        number,
        tx.now,
        said.attempt,
        percent,
        note,
        said.checkpoint.as_ref().map(Args::as_str),
        log,
        i64::try_from(said.log_dropped).unwrap_or(i64::MAX),
    ])?;
    Ok(Reported::Accepted)
}

/// Whether the job stands, unsettled, where the worker's claim has it.
fn is_held(tx: &Tx<'_>, worker: WorkerId, new: &JobReport) -> Outcome<bool> {
    let Some(lease) = Lease::find(tx, worker, new.claim)? else { return Ok(false) };
    if lease.open == 0 || !(lease.lo..=lease.hi).contains(&new.position) {
        return Ok(false);
    }
    let there: Option<i64> = first(tx.conn, AT, new.position, |row| row.get(0))?;
    Ok(there == Some(new.job.0) && !lease.is_settled(tx, new.job.0)?)
}

/// What was said of a job.
pub(crate) fn find(conn: &Connection, job: JobId) -> Outcome<Option<HandlerReport>> {
    Ok(stored(conn, job)?.map(|(said, ..)| said))
}

/// The same, with the claim and the number of the last report.
fn stored(conn: &Connection, job: JobId) -> Outcome<Option<(HandlerReport, i64, i64)>> {
    let mut find = conn.prepare_cached(FIND)?;
    let mut rows = find.query([job.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((read(row)?, row.get(7)?, row.get(8)?)))
}

fn read(row: &Row<'_>) -> Outcome<HandlerReport> {
    let note: Option<String> = row.get(3)?;
    let checkpoint: Option<String> = row.get(4)?;
    Ok(HandlerReport {
        reported_at: timestamp(row.get(0)?),
        attempt: row.get(1)?,
        progress: row.get::<_, Option<f64>>(2)?.map(|percent| Progress { percent, note }),
        checkpoint: checkpoint.as_deref().map(Args::from_store).transpose()?,
        log: serde_json::from_str(&row.get::<_, String>(5)?).map_err(|cause| damaged(&cause))?,
        log_dropped: row.get::<_, i64>(6)?.unsigned_abs(),
    })
}

fn damaged(cause: &serde_json::Error) -> Fault {
    Fault::refused(ErrorKind::Internal, format!("the log of a job is damaged: {cause}"))
}

/// The last checkpoint of each job.
pub(crate) fn checkpoints(conn: &Connection, ids: &[JobId]) -> Outcome<Vec<Option<Args>>> {
    let mut find = conn.prepare_cached(CHECKPOINT)?;
    let mut last = Vec::with_capacity(ids.len());
    for id in ids {
        let stored: Option<Option<String>> = find.query_one([id.0], |row| row.get(0)).optional()?;
        last.push(stored.flatten().as_deref().map(Args::from_store).transpose()?);
    }
    Ok(last)
}

/// The job is about to be removed.
pub(crate) fn forget(tx: &Tx<'_>, job: i64) -> Outcome<()> {
    tx.conn.prepare_cached(FORGET)?.execute([job])?;
    Ok(())
}

/// The jobs of a finished claim, so many, are about to be removed. Costs a look where there are no reports of such ids. Of jobs of other lanes, which have
/// ids between, there may be any number.
pub(crate) fn forget_claim(tx: &Tx<'_>, (lo, hi): (i64, i64), moved: bool, jobs: i64) -> Outcome<()> {
    debug_assert_eq!(position::lane_of(lo), position::lane_of(hi));
    let reports: i64 =
        tx.conn.prepare_cached(BETWEEN)?.query_one([lo, hi, jobs.saturating_add(1)], |row| row.get(0))?;
    let forget = if reports > jobs { FORGET_BY_JOBS } else { FORGET_UNMOVED };
    if reports > 0 {
        tx.conn.prepare_cached(forget)?.execute([lo, hi])?;
    }
    if moved {
        tx.conn.prepare_cached(FORGET_MOVED)?.execute([lo, hi])?;
    }
    Ok(())
}
