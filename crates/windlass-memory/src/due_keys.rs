//! Keys whose jobs wait until their rate allows more.

use crate::{clock::until, keys::Room, state::State};
use std::time::Duration;

/// Forgets what counts no more for a rate. Whether a job may go therefore.
pub(crate) fn forget_past(state: &mut State) -> bool {
    let now = state.now();
    let mut past = Vec::new();
    for (name, queue) in &mut state.queues {
        past.extend(queue.ended.forget_past(now).into_iter().map(|key| (name.clone(), key)));
    }
    past.iter().any(|(queue, key)| waits(state, queue, key))
}

/// How long until the rate of a key of this queue, or of any, allows more of the jobs that wait.
pub(crate) fn next_due(state: &State, queue: Option<&str>) -> Option<Duration> {
    let queues = state.queues.iter().filter(|(name, _)| queue.is_none_or(|queue| queue == &***name));
    let next = queues.filter_map(|(name, queue)| {
        let room = Room::of(state, name)?;
        let full = queue.ended.firsts().filter(|(key, _)| room.is_full(key) && waits(state, name, key));
        full.map(|(_, first)| first).min()
    });
    next.min().map(|at| until(state.now(), at))
}

fn waits(state: &State, queue: &str, key: &str) -> bool {
    let lanes = state.lanes.iter().filter(|lane| *lane.queue == *queue);
    let mut jobs = lanes.flat_map(|lane| lane.available.values().chain(&lane.no_handler));
    jobs.any(|id| state.jobs[id].key() == Some(key))
}
