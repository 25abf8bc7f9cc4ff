use crate::{
    enqueue,
    job::{Job, Place},
    state::State,
};
use std::sync::Arc;
use windlass_core::{DeleteReply, EditReply, Envelope, EventType, JobEdit, JobId, JobState, When};

/// Changes a job that no worker holds: all that the edit names, or nothing.
pub(crate) fn edit(state: &mut State, id: JobId, edit: &JobEdit) -> EditReply {
    let Some(job) = state.jobs.get(&id) else { return EditReply::NotFound };
    match job.place.state() {
        JobState::Running => return EditReply::Running,
        JobState::Completed => return EditReply::Finished,
        JobState::Cancelled | JobState::Discarded if edit.when().is_some() => return EditReply::Finished,
        _ => {}
    }
    if edit.args().is_some() && Envelope::is_one(job.args.as_str().as_bytes()) {
        return EditReply::Encrypted;
    }
    let expires_at = job.attributes.as_ref().and_then(|attributes| attributes.expires_at);
    let due = edit.when().filter(|when| *when != When::Now).map(|when| enqueue::due(when, state.now()));
    if expires_at.zip(due).is_some_and(|(expires_at, due)| expires_at <= due) {
        return EditReply::Expires;
    }
    let is_dead = matches!(job.place.state(), JobState::Cancelled | JobState::Discarded);
    if !is_dead && edit.max_attempts().is_some_and(|most| most <= job.attempt) {
        return EditReply::AttemptsUsed;
    }
    let present = &state.lanes[job.lane];
    let queue = Arc::clone(&present.queue);
    let priority = edit.priority().unwrap_or(present.priority);
    let lane = state.lane(edit.queue().unwrap_or(&queue), priority);
    state.relocate(id, lane);
    if let Some(job) = state.jobs.get_mut(&id) {
        set(job, edit);
    }
    if let Some(when) = edit.when() {
        match Some(enqueue::due(when, state.now())).filter(|due| *due > state.now()) {
            Some(due) => state.postpone(id, due),
            None => state.hasten(id),
        }
    }
    EditReply::Edited
}

fn set(job: &mut Job, edit: &JobEdit) {
    job.max_attempts = edit.max_attempts().unwrap_or(job.max_attempts);
    if let Some(args) = edit.args() {
        job.args = args.clone();
    }
}

impl State {
    /// Until then; one that failed is still one that failed.
    fn postpone(&mut self, id: JobId, due: jiff::Timestamp) {
        let place = match self.jobs[&id].place {
            Place::Retryable(_) => Place::Retryable(due),
            _ => Place::Scheduled(due),
        };
        self.move_job(id, place);
    }

    /// What waits for its time is available now.
    fn hasten(&mut self, id: JobId) {
        if matches!(self.jobs[&id].place, Place::Scheduled(_) | Place::Retryable(_)) {
            self.make_available(id);
        }
    }
}

/// Forgets a job that no worker holds.
pub(crate) fn delete(state: &mut State, id: JobId) -> DeleteReply {
    let Some(job) = state.jobs.get(&id) else { return DeleteReply::NotFound };
    match job.place.state() {
        JobState::Running => return DeleteReply::Running,
        JobState::Completed => return DeleteReply::Completed,
        _ => {}
    }
    let attempt = job.attempt;
    state.note(id, EventType::Deleted, attempt, None, None);
    state.remove(id);
    DeleteReply::Deleted
}
