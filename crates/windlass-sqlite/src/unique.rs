//! Unique jobs. The writer is alone while it looks and writes, so nothing races.

use crate::{
    clock::{Micros, micros},
    enqueue::{Batch, due},
    error::{Fault, Outcome},
    locate::{self, Log, LogState, Place},
    number_lanes::NumberLanes,
    replace::{fresh, replace},
    tx::Tx,
};
use rusqlite::{OptionalExtension, params};
use windlass_core::{
    Attributes, Conflict, EnqueuedUnique, ErrorKind, JobId, JobState, NewJob, OnConflict, UniqueBatch,
    UniqueKey, UniqueUntil,
};

const FIND: &str = "SELECT job, until, taken_at, ends_at FROM unique_key WHERE key = ?1";
const TAKE: &str = "INSERT OR REPLACE INTO unique_key (key, job, until, taken_at, ends_at, check_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const MOVE: &str = "UPDATE unique_key SET job = ?2, until = ?3, taken_at = ?4, ends_at = ?5 WHERE key = ?1";
const EXTEND: &str = "UPDATE unique_key SET ends_at = max(ends_at, ?2), taken_at = ?3
    WHERE key = ?1 AND ends_at IS NOT NULL";
const DUE: &str = "SELECT key, job FROM unique_key WHERE check_at <= ?1 ORDER BY check_at LIMIT ?2";
const PUT_OFF: &str = "UPDATE unique_key SET check_at = ?2 WHERE key = ?1";
const FREE: &str = "DELETE FROM unique_key WHERE key = ?1";

const STARTED: i64 = 0;
const FINISHED: i64 = 1;
const WINDOW: i64 = 2;

/// How long after a key was taken housekeeping looks at it first; then as long again as it was taken until then.
const FIRST_CHECK: Micros = 60_000_000;
/// About how many lanes one transaction of housekeeping looks into, where jobs are there whose lane is not noted: to find one takes a look into each.
const LOOKS: u32 = 20_000;

/// The job that took a key last.
#[derive(Clone, Copy)]
struct Holder {
    job: JobId,
    until: i64,
    taken_at: Micros,
    ends_at: Option<Micros>,
}

/// A job that is not over.
struct Live {
    place: Place,
    /// Since when a worker has it.
    taken_at: Option<Micros>,
}

fn live(tx: &Tx<'_>, job: JobId) -> Outcome<Option<Live>> {
    let (place, taken_at) = match locate::find(tx, job)? {
        None | Some(Place::Dead { .. }) => return Ok(None),
        Some(place @ Place::Waiting { .. }) => (place, None),
        Some(place @ Place::Log { pos }) => {
            let LogState { state, claimed_at, .. } = Log::new(tx.conn).state(pos, job.0)?;
            if state == JobState::Completed {
                return Ok(None);
            }
            (place, claimed_at)
        }
    };
    Ok(Some(Live { place, taken_at }))
}

/// Whether a job there expired before a worker took it, which cancels it when it meets it. One that was taken in time may run.
fn will_not_start(tx: &Tx<'_>, job: JobId, place: &Place, taken_at: Option<Micros>) -> Outcome<bool> {
    let (find, at) = match place {
        Place::Log { pos } => ("SELECT coalesce(attributes, '') FROM job WHERE pos = ?1", *pos),
        _ => ("SELECT coalesce(attributes, '') FROM waiting WHERE id = ?1", job.0),
    };
    let attributes = locate::first(tx.conn, find, at, |row| row.get::<_, String>(0))?.unwrap_or_default();
    if !attributes.contains("\"expires_at\"") {
        return Ok(false);
    }
    let expires_at = Attributes::from_store(&attributes)?.and_then(|attributes| attributes.expires_at);
    Ok(expires_at.is_some_and(|at| at.as_microsecond() <= taken_at.unwrap_or(tx.now)))
}

/// A window that begins further ahead than it is long is from before the clock was set back: it could last for years.
fn has_key(tx: &Tx<'_>, holder: &Holder) -> Outcome<bool> {
    let ahead = holder.taken_at.saturating_sub(tx.now);
    match (holder.until, holder.ends_at) {
        (WINDOW, ends_at) => {
            Ok(ends_at.is_some_and(|end| tx.now < end && ahead <= end.saturating_sub(holder.taken_at)))
        }
        (STARTED, _) => match fresh(tx, holder.job)? {
            Some(place) => Ok(!will_not_start(tx, holder.job, &place, None)?),
            None => Ok(false),
        },
        _ => match live(tx, holder.job)? {
            Some(Live { place, taken_at }) => Ok(!will_not_start(tx, holder.job, &place, taken_at)?),
            None => Ok(false),
        },
    }
}

fn last_holder(tx: &Tx<'_>, key: UniqueKey) -> Outcome<Option<Holder>> {
    let mut find = tx.conn.prepare_cached(FIND)?;
    let holder = find.query_one([key.0], |row| {
        let (taken_at, ends_at) = (row.get(2)?, row.get(3)?);
        Ok(Holder { job: JobId(row.get(0)?), until: row.get(1)?, taken_at, ends_at })
    });
    Ok(holder.optional()?)
}

fn holder_of(tx: &Tx<'_>, key: UniqueKey) -> Outcome<Option<Holder>> {
    match last_holder(tx, key)? {
        Some(holder) if has_key(tx, &holder)? => Ok(Some(holder)),
        _ => Ok(None),
    }
}

/// Appends the jobs of a batch whose keys are free.
pub(crate) fn enqueue(tx: &mut Tx<'_>, batch: &UniqueBatch) -> Outcome<Vec<EnqueuedUnique>> {
    let mut holders = Vec::with_capacity(batch.jobs.len());
    for (place, (job, key)) in batch.jobs.iter().zip(&batch.keys).enumerate() {
        let holder = key.map_or(Ok(None), |key| holder_of(tx, key))?;
        if let (Some(holder), OnConflict::Error) = (holder, rule(job)) {
            // As where a job is kept.
            tx.touch()?;
            return Err(batch.conflict(place, holder.job).into());
        }
        holders.push(holder);
    }
    let free = batch.jobs.iter().zip(&holders).filter(|(_, holder)| holder.is_none());
    let free: Vec<NewJob> = free.map(|(job, _)| job.clone()).collect();
    let mut ids = Batch::pack(&free).append(tx)?.into_iter();
    let mut stored = Vec::with_capacity(batch.jobs.len());
    for ((job, key), holder) in batch.jobs.iter().zip(&batch.keys).zip(holders) {
        stored.push(match (key, holder) {
            (Some(key), Some(holder)) => meet(tx, job, *key, holder)?,
            (key, _) => {
                let missing = || Fault::refused(ErrorKind::Internal, "fewer ids than jobs were appended");
                let id = ids.next().ok_or_else(missing)?;
                key.map_or(Ok(()), |key| take(tx, job, key, id))?;
                EnqueuedUnique { id, conflict: None }
            }
        });
    }
    Ok(stored)
}

fn rule(job: &NewJob) -> OnConflict {
    job.unique().map_or(OnConflict::Keep, |unique| unique.conflict_rule())
}

/// The job's key is free now: the job takes it.
fn take(tx: &Tx<'_>, job: &NewJob, key: UniqueKey, id: JobId) -> Outcome<()> {
    let (until, ends_at) = terms(job, tx.now);
    note(tx, key, id, until, ends_at)
}

/// How long a job has its key that takes it at a time.
fn terms(job: &NewJob, since: Micros) -> (i64, Option<Micros>) {
    match job.unique().map(|unique| unique.until()) {
        Some(UniqueUntil::Started) => (STARTED, None),
        Some(UniqueUntil::Window(window)) => (WINDOW, Some(since.saturating_add(micros(window)))),
        _ => (FINISHED, None),
    }
}

/// The key is the job's that took the holder's place, for as long as that says. A window that runs counts on from when it began.
fn hand_on(tx: &Tx<'_>, job: &NewJob, key: UniqueKey, holder: Holder, id: JobId) -> Outcome<()> {
    let runs = holder.until == WINDOW;
    let (until, ends_at) = terms(job, if runs { holder.taken_at } else { tx.now });
    let since = if runs || ends_at.is_none() { holder.taken_at } else { tx.now };
    tx.conn.prepare_cached(MOVE)?.execute(params![key.0, id.0, until, since, ends_at])?;
    Ok(())
}

fn note(tx: &Tx<'_>, key: UniqueKey, id: JobId, until: i64, ends_at: Option<Micros>) -> Outcome<()> {
    let check_at = ends_at.unwrap_or(tx.now.saturating_add(FIRST_CHECK));
    tx.conn.prepare_cached(TAKE)?.execute(params![key.0, id.0, until, tx.now, ends_at, check_at])?;
    Ok(())
}

/// The job meets another one that has its key.
fn meet(tx: &mut Tx<'_>, job: &NewJob, key: UniqueKey, holder: Holder) -> Outcome<EnqueuedUnique> {
    let (mut id, mut conflict) = (holder.job, Conflict::Kept);
    match (rule(job), job.unique().map(|unique| unique.until())) {
        (OnConflict::Extend, Some(UniqueUntil::Window(window))) => {
            let end = tx.now.saturating_add(micros(window));
            if let Some(before) = holder.ends_at {
                conflict = Conflict::Extended;
                tx.conn.prepare_cached(EXTEND)?.execute(params![key.0, end, tx.now])?;
                if end <= before {
                    tx.touch()?; // as where the job is kept
                }
            }
        }
        (OnConflict::Replace { max_wait }, _) => {
            if let Some(new) = replace(tx, holder.job, job, max_wait.map(micros), due(job.when(), tx.now))? {
                hand_on(tx, job, key, holder, new)?;
                (id, conflict) = (new, Conflict::Replaced);
            }
        }
        _ => {}
    }
    if conflict == Conflict::Kept {
        // Who stored the job may have been cut off before it was on the disk.
        tx.touch()?;
    }
    Ok(EnqueuedUnique { id, conflict: Some(conflict) })
}

/// A dead job is to run again: takes its key, if it has one, unless another job has it.
pub(crate) fn take_again(tx: &Tx<'_>, id: JobId) -> Outcome<bool> {
    let attributes = "SELECT coalesce(attributes, '') FROM dead WHERE id = ?1";
    let attributes = locate::first(tx.conn, attributes, id.0, |row| row.get::<_, String>(0))?;
    let attributes = Attributes::from_store(&attributes.unwrap_or_default())?;
    let Some(mark) = attributes.and_then(|attributes| attributes.unique) else { return Ok(true) };
    if holder_of(tx, mark.key)?.is_some_and(|holder| holder.job != id) {
        return Ok(false);
    }
    let until = if mark.until == "started" { STARTED } else { FINISHED };
    note(tx, mark.key, id, until, None)?;
    Ok(true)
}

/// Looks at no more than `most` keys, and forgets those that nobody has. Whether there may be more to look at.
pub(crate) fn forget(tx: &Tx<'_>, most: u32) -> Outcome<bool> {
    let mut find = tx.conn.prepare_cached(DUE)?;
    let mut due: Vec<([u8; 16], i64)> = find
        .query_map(params![tx.now, most], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let (found, noted) = (due.len(), NumberLanes::new(tx.conn)?);
    if due.iter().any(|(_, job)| !noted.has(*job)) {
        let lanes: u32 =
            tx.conn.prepare_cached("SELECT count(*) FROM lane")?.query_one([], |row| row.get(0))?;
        due.truncate((LOOKS / lanes.max(1)).max(1) as usize);
    }
    for (key, _) in &due {
        let Some(holder) = last_holder(tx, UniqueKey(*key))? else { continue };
        // A job that had its key until it was started has it again where it comes back untried.
        let may_have = holder.until == STARTED && live(tx, holder.job)?.is_some();
        if may_have || has_key(tx, &holder)? {
            let age = tx.now.saturating_sub(holder.taken_at).max(FIRST_CHECK);
            let next = holder.ends_at.unwrap_or(tx.now.saturating_add(age));
            tx.conn.prepare_cached(PUT_OFF)?.execute(params![key, next])?;
        } else {
            tx.conn.prepare_cached(FREE)?.execute([key])?;
        }
    }
    Ok(found == most as usize || due.len() < found)
}
