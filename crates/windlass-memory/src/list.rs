use crate::{
    inspect::record,
    job::{Job, Place},
    state::State,
};
use jiff::Timestamp;
use windlass_core::{JobFilter, JobPage, JobState, PageToken, Result};

/// The place of a job in lists: its state, its lane, and two numbers that follow from where it lives.
type Key = [i64; 4];

/// A page of jobs in the order that [`JobFilter`] promises.
pub(crate) fn jobs(state: &State, filter: &JobFilter) -> Result<JobPage> {
    filter.check()?;
    let wanted = filter.wanted()?;
    let after = filter.position()?;
    let fits = |job: &&Job| {
        filter.state.is_none_or(|wanted| job.place.state() == wanted)
            && filter.kind.as_ref().is_none_or(|kind| *kind == *job.kind)
            && filter.tag.as_ref().is_none_or(|tag| job.tags().contains(tag))
            && filter.queue.as_ref().is_none_or(|queue| *queue == *state.lanes[job.lane].queue)
            && wanted.has_error(last_error(job))
            && wanted.has_args(job.args.as_str())
    };
    let mut found: Vec<(Key, &Job)> = state
        .jobs
        .values()
        .filter(fits)
        .map(|job| (key(job), job))
        .filter(|(key, _)| after.as_ref().is_none_or(|after| key.as_slice() > after.as_slice()))
        .collect();
    let limit = filter.limit as usize;
    let more = found.len() > limit;
    if more {
        found.select_nth_unstable_by_key(limit, |(key, _)| *key);
        found.truncate(limit);
    }
    found.sort_unstable_by_key(|(key, _)| *key);
    let next = found.last().filter(|_| more).map(|(key, _)| PageToken::new(filter, key));
    Ok(JobPage { jobs: found.iter().map(|(_, job)| record(state, job)).collect(), next })
}

/// What filters by error look at.
fn last_error(job: &Job) -> Option<&str> {
    match &job.place {
        Place::Discarded { reason, .. } => Some(reason),
        _ => job.errors.last().map(|error| error.error.as_str()),
    }
}

fn key(job: &Job) -> Key {
    let rank = match job.place.state() {
        JobState::Running => 0,
        JobState::Available => 1,
        JobState::Retryable => 2,
        JobState::Scheduled => 3,
        JobState::Discarded => 4,
        JobState::Cancelled => 5,
        JobState::Completed => 6,
    };
    let micros = Timestamp::as_microsecond;
    let held = job.held.map_or((0, 0), |held| (held.claim.1.cast_signed(), held.order));
    let (first, second) = match &job.place {
        Place::Running => held,
        Place::Available(order) => (0, -order),
        // Behind all others.
        Place::NoHandler => (micros(job.available_since).max(1), job.id.0),
        Place::Retryable(at) | Place::Scheduled(at) => (micros(*at), job.id.0),
        Place::Discarded { at, .. } | Place::Cancelled { at, .. } => (-micros(*at), -job.id.0),
        Place::Completed { .. } => (-held.0, held.1),
    };
    [rank, job.lane as i64, first, second]
}
