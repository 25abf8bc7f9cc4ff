use crate::{clock::later, job::Place, state::State};
use windlass_core::{
    AttemptError, ClaimRef, Completion, Disposition, EventType, Exception, JobId, JobSet, Limits, Result,
    SettleReply, SettleRequest, Settled, WorkerId,
};

/// Settles a request: the jobs that are named one by one first, so that the rest of a claim leaves them out.
pub(crate) fn settle(state: &mut State, request: &SettleRequest) -> Result<SettleReply> {
    state.fence(request.worker)?;
    let mut reply = SettleReply::default();
    for exception in &request.exceptions {
        reply.exceptions.push(settle_one(state, request.worker, exception));
    }
    for completion in &request.completions {
        reply.completions.push(complete(state, request.worker, completion));
    }
    Ok(reply)
}

/// Whether this worker made the claim.
pub(crate) fn is_holder(state: &State, worker: WorkerId, ClaimRef(token, number): ClaimRef) -> bool {
    state.claims.get(&number).is_some_and(|claim| claim.token == token && claim.worker == worker)
}

fn complete(state: &mut State, worker: WorkerId, completion: &Completion) -> Settled {
    if !is_holder(state, worker, completion.claim) {
        return Settled::Refused;
    }
    let named = |id: &&JobId| match &completion.jobs {
        JobSet::Rest => true,
        JobSet::Ranges(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&id.0)),
    };
    let open = &state.claims[&completion.claim.1].open;
    let ids: Vec<JobId> = open.iter().filter(named).copied().collect();
    let at = state.now();
    for id in &ids {
        state.move_job(*id, Place::Completed { at, result: None });
    }
    if ids.is_empty() { Settled::Already } else { Settled::Accepted }
}

fn settle_one(state: &mut State, worker: WorkerId, exception: &Exception) -> Settled {
    let Exception { claim, job, position, disposition } = exception;
    if !is_holder(state, worker, *claim) {
        return Settled::Refused;
    }
    let claim = &state.claims[&claim.1];
    if !claim.jobs.contains(job) {
        return Settled::Refused;
    }
    if !claim.open.contains(job) {
        return Settled::Already;
    }
    if state.jobs[job].held.is_none_or(|held| held.order != *position) {
        return Settled::Refused;
    }
    dispose(state, *job, disposition);
    Settled::Accepted
}

fn dispose(state: &mut State, id: JobId, disposition: &Disposition) {
    let now = state.now();
    let ends = match disposition {
        // Where it failed, that counts it.
        Disposition::Retry { .. } | Disposition::Discard { failed: true, .. } => false,
        Disposition::Cancel { .. } | Disposition::Discard { .. } => true,
        _ => disposition.brings_back() && state.is_cancel_asked(id),
    };
    if ends {
        state.count_attempt(id);
    }
    match disposition {
        Disposition::Complete { result } => {
            state.move_job(id, Place::Completed { at: now, result: result.clone() });
        }
        Disposition::Retry { delay, error } => {
            fail(state, id, error);
            state.move_job(id, Place::Retryable(later(now, (*delay).min(Limits::LONGEST))));
        }
        Disposition::Snooze { delay } => {
            state.move_job(id, Place::Scheduled(later(now, (*delay).min(Limits::LONGEST))));
            state.note_back(id, EventType::Snoozed, None);
        }
        Disposition::Undecryptable { delay, error } => {
            if !state.is_cancel_asked(id) {
                note_once(state, id, error);
            }
            state.move_job(id, Place::Retryable(later(now, (*delay).min(Limits::LONGEST))));
            state.note_back(id, EventType::Snoozed, Some(&Limits::storable_error(error)));
        }
        Disposition::Cancel { reason } => {
            let reason = Limits::storable_error(reason);
            state.move_job(id, Place::Cancelled { at: now, reason });
        }
        Disposition::Discard { error, failed } => {
            if *failed {
                fail(state, id, error);
            }
            let reason = Limits::storable_error(error);
            state.move_job(id, Place::Discarded { at: now, reason });
        }
        Disposition::NoHandler => {
            state.move_job(id, Place::NoHandler);
            state.note_back(id, EventType::Returned, Some("its worker does not know its kind"));
        }
        // Unknown dispositions of a newer engine: hand the job back, so that nothing is lost.
        _ => {
            state.make_available(id);
            state.note_back(id, EventType::Returned, None);
        }
    }
}

/// Uses up an attempt.
fn fail(state: &mut State, id: JobId, error: &str) {
    let at = state.now();
    state.count_attempt(id);
    if let Some(job) = state.jobs.get_mut(&id) {
        let (attempt, error) = (job.attempt, Limits::storable_error(error));
        job.errors.push(AttemptError { attempt, at, error: error.clone() });
        let worker = job.held.map(|held| held.worker);
        state.note(id, EventType::Failed, attempt, worker, Some(&error));
    }
}

/// Keeps the error of an attempt that could not begin, unless it was kept before.
fn note_once(state: &mut State, id: JobId, error: &str) {
    let at = state.now();
    if let Some(job) = state.jobs.get_mut(&id) {
        let (attempt, error) = (job.attempt + 1, Limits::storable_error(error));
        if !job.errors.iter().any(|known| known.attempt == attempt && known.error == error) {
            job.errors.push(AttemptError { attempt, at, error });
        }
    }
}
