//! Rates of keys: what is held no more and still counts.

use crate::{
    clock::{later, until},
    keys::Room,
    queue::Queue,
    state::State,
};
use jiff::Timestamp;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};
use windlass_core::JobId;

/// Of each key of a queue that has a rate: until when each job counts that is held no more.
#[derive(Debug, Default)]
pub(crate) struct Ended(HashMap<String, Vec<Timestamp>>);

impl Ended {
    /// How many count of each key.
    pub(crate) fn counts(&self, now: Timestamp) -> HashMap<&str, u32> {
        let count = |ends: &Vec<Timestamp>| ends.iter().filter(|end| **end > now).count() as u32;
        self.0.iter().map(|(key, ends)| (&**key, count(ends))).collect()
    }

    /// Forgets what is past. The keys of which something was.
    fn forget_past(&mut self, now: Timestamp) -> BTreeSet<String> {
        let mut past = BTreeSet::new();
        self.0.retain(|key, ends| {
            let before = ends.len();
            ends.retain(|end| *end > now);
            if ends.len() < before {
                past.insert(key.clone());
            }
            !ends.is_empty()
        });
        past
    }
}

/// A job is held no more.
pub(crate) fn let_go(state: &mut State, id: JobId) {
    let now = state.now();
    // One that nobody held was just enqueued.
    let Some(job) = state.jobs.get(&id).filter(|job| job.held.is_some()) else { return };
    let Some(queue) = state.queues.get_mut(&state.lanes[job.lane].queue) else { return };
    if let Some((limits, key)) = queue.keys.as_ref().zip(job.key())
        && let Some(rate) = limits.of(key).rate
    {
        queue.ended.0.entry(key.to_owned()).or_default().push(later(now, rate.period));
    }
}

/// A key without a rate forgets what counted.
pub(crate) fn limits_changed(queue: &mut Queue) {
    let limits = queue.keys.as_ref();
    queue.ended.0.retain(|key, _| limits.is_some_and(|limits| limits.of(key).rate.is_some()));
}

/// Forgets what is past. Whether a job may go therefore.
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
        let full = queue.ended.0.iter().filter(|(key, _)| room.is_full(key) && waits(state, name, key));
        full.flat_map(|(_, ends)| ends).min()
    });
    next.min().map(|at| until(state.now(), *at))
}

fn waits(state: &State, queue: &str, key: &str) -> bool {
    let lanes = state.lanes.iter().filter(|lane| *lane.queue == *queue);
    let mut jobs = lanes.flat_map(|lane| lane.available.values().chain(&lane.no_handler));
    jobs.any(|id| state.jobs[id].key() == Some(key))
}
