use crate::{job::Place, state::State, unique};
use windlass_core::{
    CancelReply, Disposition, EventType, JobId, JobState, Limits, QueueLimits, Result, RetryReply, Share,
    ShareRequest,
};

/// Takes a waiting job out; one that runs is noted for its worker.
pub(crate) fn cancel(state: &mut State, id: JobId) -> CancelReply {
    let Some(job) = state.jobs.get_mut(&id) else { return CancelReply::NotFound };
    match job.place.state() {
        JobState::Running => {
            job.cancel_asked = true;
            CancelReply::Running
        }
        JobState::Completed | JobState::Cancelled | JobState::Discarded => CancelReply::Finished,
        _ => {
            let (at, reason) = (state.now(), Disposition::BY_REQUEST.to_owned());
            state.move_job(id, Place::Cancelled { at, reason });
            CancelReply::Cancelled
        }
    }
}

/// Makes a dead, cancelled or retryable job available now. A dead one gets its attempts anew.
pub(crate) fn retry(state: &mut State, id: JobId) -> RetryReply {
    let Some(job) = state.jobs.get(&id) else { return RetryReply::NotFound };
    match job.place.state() {
        JobState::Completed => return RetryReply::Completed,
        JobState::Retryable => {}
        JobState::Cancelled | JobState::Discarded if !unique::take_again(state, id) => {
            return RetryReply::KeyTaken;
        }
        JobState::Cancelled | JobState::Discarded => {
            if let Some(job) = state.jobs.get_mut(&id) {
                (job.attempt, job.crash_count) = (0, 0);
            }
        }
        _ => return RetryReply::Pending,
    }
    state.make_available(id);
    let attempt = state.jobs.get(&id).map_or(0, |job| job.attempt);
    state.note(id, EventType::Retried, attempt, None, None);
    RetryReply::Retried
}

/// Stops or allows claiming from a queue. Whether workers have to ask for their shares of it.
pub(crate) fn pause(state: &mut State, queue: &str, paused: bool) -> Result<bool> {
    match state.queues.get_mut(queue) {
        Some(queue) => {
            queue.paused = paused;
            Ok(!queue.limits().is_none())
        }
        None => Err(Limits::unknown_queue(queue)),
    }
}

/// Limits how many jobs of a queue run.
pub(crate) fn limit(state: &mut State, queue: &str, limits: QueueLimits) {
    let name = state.queue(queue);
    state.queues.entry(name).or_default().set_limits(limits);
}

/// Gives a worker its share of limited queues. Whether others should ask again.
pub(crate) fn share(state: &mut State, request: &ShareRequest) -> Result<(Vec<Option<Share>>, bool)> {
    state.fence(request.worker)?;
    let now = state.now();
    let mut tell = false;
    let shares = request.queues.iter().map(|need| match state.queues.get_mut(&need.queue) {
        Some(queue) => {
            let (share, others) = queue.share(request, need, now);
            tell |= others;
            share
        }
        None => Share::UNLIMITED,
    });
    Ok((shares.map(Some).collect(), tell))
}
