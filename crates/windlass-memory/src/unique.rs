//! Unique jobs. Who has a key is not noted anywhere: it follows from what became of the job that took it last.

use crate::{
    clock::later,
    enqueue::{due, put, store},
    holder::{Holder, Until},
    job::{Job, Place},
    keys,
    state::State,
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Conflict, EnqueuedUnique, JobId, JobState, NewJob, OnConflict, Result, UniqueBatch, UniqueKey,
    UniqueUntil,
};

/// Whether the job still has the key.
fn has(state: &State, holder: &Holder) -> bool {
    let job = state.jobs.get(&holder.job).filter(|job| !will_not_start(state, job));
    match holder.until {
        Until::Started => job.is_some_and(|job| is_fresh(job.place.state(), job.attempt)),
        Until::Finished => job.is_some_and(|job| job.place.finished_at().is_none()),
        Until::Time(end) => state.now() < end,
    }
}

/// Whether a job expired before a worker took it, which cancels it when it meets it. One that was taken in time may run.
fn will_not_start(state: &State, job: &Job) -> bool {
    let taken = job.held.as_ref().filter(|_| matches!(job.place, Place::Running)).map(|hold| hold.at);
    let expires_at = job.attributes.as_ref().and_then(|attributes| attributes.expires_at);
    expires_at.is_some_and(|at| at <= taken.unwrap_or_else(|| state.now()))
}

/// Whether a job waits and was not tried yet.
fn is_fresh(state: JobState, attempts: u16) -> bool {
    attempts == 0 && matches!(state, JobState::Available | JobState::Scheduled)
}

fn holder_of(state: &State, key: UniqueKey) -> Option<Holder> {
    state.unique.get(&key).copied().filter(|holder| has(state, holder))
}

/// Stores the jobs of a batch whose keys are free.
pub(crate) fn enqueue(state: &mut State, batch: &UniqueBatch) -> Result<Vec<EnqueuedUnique>> {
    let jobs = || batch.jobs.iter().zip(&batch.keys).enumerate();
    for (place, (job, key)) in jobs() {
        if rule(job) == OnConflict::Error
            && let Some(holder) = key.and_then(|key| holder_of(state, key))
        {
            return Err(batch.conflict(place, holder.job));
        }
    }
    Ok(jobs().map(|(_, (job, key))| enqueue_one(state, job, *key)).collect())
}

fn rule(job: &NewJob) -> OnConflict {
    job.unique().map_or(OnConflict::Keep, |unique| unique.conflict_rule())
}

fn enqueue_one(state: &mut State, job: &NewJob, key: Option<UniqueKey>) -> EnqueuedUnique {
    let now = state.now();
    let Some(key) = key else { return EnqueuedUnique { id: store(state, job, now), conflict: None } };
    let Some(mut holder) = holder_of(state, key) else {
        let id = store(state, job, now);
        state.unique.insert(key, Holder { job: id, since: now, until: until(job, now) });
        return EnqueuedUnique { id, conflict: None };
    };
    let mut conflict = Conflict::Kept;
    match (rule(job), holder.until, until(job, now)) {
        (OnConflict::Extend, Until::Time(end), Until::Time(new)) => {
            (holder.since, holder.until, conflict) = (now, Until::Time(end.max(new)), Conflict::Extended);
        }
        (OnConflict::Replace { max_wait }, ..) => {
            if let Some(id) = replace(state, holder.job, job, max_wait) {
                (holder, conflict) = (in_place_of(holder, id, job, now), Conflict::Replaced);
            }
        }
        _ => {}
    }
    state.unique.insert(key, holder);
    EnqueuedUnique { id: holder.job, conflict: Some(conflict) }
}

/// How long a job has its key that takes it at a time.
fn until(job: &NewJob, since: Timestamp) -> Until {
    match job.unique().map(|unique| unique.until()) {
        Some(UniqueUntil::Started) => Until::Started,
        Some(UniqueUntil::Window(window)) => Until::Time(later(since, window)),
        _ => Until::Finished,
    }
}

/// The key is the new job's, for as long as that says. A window that runs counts on from when it began.
fn in_place_of(old: Holder, id: JobId, job: &NewJob, now: Timestamp) -> Holder {
    let since = if matches!(old.until, Until::Time(_)) { old.since } else { now };
    Holder { job: id, since, until: until(job, since) }
}

/// Puts a job in the place of one that waits and was not tried; the time of its enqueue stays. Its id.
fn replace(state: &mut State, id: JobId, new: &NewJob, max_wait: Option<Duration>) -> Option<JobId> {
    let now = state.now();
    let old = state.jobs.get(&id).filter(|job| is_fresh(job.place.state(), job.attempt))?;
    let (enqueued_at, was) = (old.enqueued_at, old.place.state());
    let latest = max_wait.map(|wait| later(enqueued_at, wait));
    let due = latest.map_or(due(new.when(), now), |latest| latest.min(due(new.when(), now)));
    if was != JobState::Scheduled {
        // It stands in line: another takes its place, at the end.
        let new_id = store(state, &new.clone().with_scheduled_at(due), now);
        state.jobs.get_mut(&new_id)?.enqueued_at = enqueued_at;
        let reason = format!("replaced by job {new_id}");
        state.move_job(id, Place::Cancelled { at: now, reason });
        return Some(new_id);
    }
    if !keys::is_of_same(state, id, new) {
        state.begun.remove(&id);
    }
    state.take_out(id);
    let lane = state.lane(new.queue(), new.priority());
    let job = state.jobs.get_mut(&id)?;
    (job.lane, job.kind, job.args) = (lane, Arc::from(new.kind()), new.args().clone());
    job.max_attempts = new.max_attempts();
    job.attributes = new.attributes().map(|attributes| Box::new(attributes.received(now)));
    // It may have been handed out: what came of that was the old one's.
    job.crash_count = 0;
    job.errors.clear();
    job.said = None;
    put(state, id, due, now);
    Some(id)
}

/// A finished job is to run again: takes its key, if it has one, unless another job has it.
pub(crate) fn take_again(state: &mut State, id: JobId) -> bool {
    let attributes = state.jobs.get(&id).and_then(|job| job.attributes.as_ref());
    let Some(mark) = attributes.and_then(|attributes| attributes.unique.clone()) else { return true };
    if holder_of(state, mark.key).is_some_and(|holder| holder.job != id) {
        return false;
    }
    let until = if mark.until == "started" { Until::Started } else { Until::Finished };
    state.unique.insert(mark.key, Holder { job: id, since: state.now(), until });
    true
}

/// Forgets the keys that nobody can have again: one that was taken until its job starts is that job's once more when it comes
/// back unstarted.
pub(crate) fn forget(state: &mut State) {
    let now = state.now();
    let jobs = &state.jobs;
    state.unique.retain(|_, holder| match holder.until {
        Until::Started | Until::Finished => jobs.contains_key(&holder.job),
        Until::Time(end) => now < end,
    });
}
