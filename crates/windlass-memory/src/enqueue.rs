use crate::{
    clock::later,
    job::{Job, Place},
    state::State,
};
use jiff::Timestamp;
use std::sync::Arc;
use windlass_core::{EnqueuedOnce, Error, ErrorKind, JobId, NewJob, Result, When};

/// Stores checked jobs.
pub(crate) fn enqueue(state: &mut State, jobs: &[NewJob]) -> Vec<JobId> {
    let now = state.now();
    jobs.iter().map(|job| store(state, job, now)).collect()
}

/// Stores checked jobs, unless the key was used.
pub(crate) fn enqueue_once(state: &mut State, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
    if let Some((_, ids)) = state.keys.get(key) {
        let (before, now) = (ids.len(), jobs.len());
        if before != now {
            let message = format!(
                "idempotency key {key:?} was used for {before} jobs, now for {now}; use a key of its own for each batch"
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        return Ok(EnqueuedOnce { ids: ids.clone(), repeated: true });
    }
    let ids = enqueue(state, jobs);
    state.keys.insert(key.to_owned(), (state.now(), ids.clone()));
    Ok(EnqueuedOnce { ids, repeated: false })
}

/// Stores a checked job.
pub(crate) fn store(state: &mut State, new: &NewJob, now: Timestamp) -> JobId {
    state.last.job += 1;
    let (id, lane) = (JobId(state.last.job), state.lane(new.queue(), new.priority()));
    let job = Job {
        id,
        lane,
        kind: Arc::from(new.kind()),
        args: new.args().clone(),
        attributes: new.attributes().map(|attributes| Box::new(attributes.received(now))),
        attempt: 0,
        max_attempts: new.max_attempts(),
        crash_count: 0,
        enqueued_at: now,
        available_since: now,
        never_put_off: true,
        held: None,
        cancel_asked: false,
        errors: Vec::new(),
        said: None,
        place: Place::Running,
    };
    state.jobs.insert(id, job);
    put(state, id, due(new.when(), now), now);
    id
}

/// When a job becomes available.
pub(crate) fn due(when: When, now: Timestamp) -> Timestamp {
    match when {
        When::At(at) => at,
        When::After(delay) => later(now, delay),
        _ => now,
    }
}

/// Makes a job available when it is due.
pub(crate) fn put(state: &mut State, id: JobId, due: Timestamp, now: Timestamp) {
    match due > now {
        true => state.move_job(id, Place::Scheduled(due)),
        false => state.make_available(id),
    }
}
