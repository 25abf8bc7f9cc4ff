//! Keys inside a queue: which of its jobs may be handed out.

use crate::{job::Job, state::State, turns::Turns};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use windlass_core::{JobId, KeyLimits, KeyLimitsChange, NewJob};

/// What a queue with limits of keys allows now.
pub(crate) struct Room<'a> {
    limits: &'a KeyLimits,
    /// How many jobs of each key workers hold.
    held: HashMap<&'a str, u32>,
    /// The jobs of serial keys that were handed out and are not over.
    begun: HashMap<&'a str, BTreeSet<JobId>>,
    /// How many jobs of each key are held no more and still count for its rate.
    ended: HashMap<&'a str, u32>,
}

impl<'a> Room<'a> {
    /// `None` where the queue knows no keys.
    pub(crate) fn of(state: &'a State, queue: &str) -> Option<Self> {
        let known = state.queues.get(queue)?;
        let limits = known.keys.as_ref()?;
        let of_queue = |id: &JobId| {
            let job = state.jobs.get(id).filter(|job| *state.lanes[job.lane].queue == *queue)?;
            Some((*id, job.key()?))
        };
        let mut room = Self { limits, held: HashMap::new(), begun: HashMap::new(), ended: HashMap::new() };
        room.ended = known.ended.counts(state.now());
        for (_, key) in state.held.iter().filter_map(of_queue) {
            *room.held.entry(key).or_default() += 1;
        }
        for (id, key) in state.begun.iter().filter_map(of_queue) {
            room.begun.entry(key).or_default().insert(id);
        }
        Some(room)
    }

    /// Whether the job may be handed out.
    pub(crate) fn admits(&self, job: &Job) -> bool {
        let Some(key) = job.key() else { return true };
        let limit = self.limits.of(key);
        let held = self.held.get(key).copied().unwrap_or_default();
        let is_next = self.begun.get(key).is_none_or(|begun| begun.contains(&job.id));
        let ended = self.ended.get(key).copied().unwrap_or_default();
        let may_start = limit.rate.is_none_or(|rate| held + ended < rate.count);
        limit.at_once().is_none_or(|most| held < most) && is_next && may_start
    }

    /// Whether no job of the key may be handed out before one more is past that counts for its rate.
    pub(crate) fn is_full(&self, key: &str) -> bool {
        let of = |counts: &HashMap<&str, u32>| counts.get(key).copied().unwrap_or_default();
        self.limits.of(key).rate.is_some_and(|rate| of(&self.held) + of(&self.ended) >= rate.count)
    }

    /// The job is handed out.
    fn take(&mut self, job: &'a Job) {
        if let Some(key) = job.key() {
            *self.held.entry(key).or_default() += 1;
        }
    }

    /// The weight of a key; the jobs without one take turns as those of a key do.
    fn weight(&self, key: Option<&str>) -> u16 {
        key.map_or(1, |key| self.limits.of(key).weight)
    }

    /// Of the jobs of a lane those that may be handed out now, at most so many, in their turn.
    pub(crate) fn in_turn(
        &mut self,
        turns: &Turns,
        jobs: impl Iterator<Item = &'a Job>,
        most: usize,
    ) -> Vec<JobId> {
        let mut lines: BTreeMap<Option<&str>, VecDeque<(usize, &Job)>> = BTreeMap::new();
        for (place, job) in jobs.enumerate().filter(|(_, job)| self.admits(job)) {
            lines.entry(job.key()).or_default().push_back((place, job));
        }
        for (_, line) in lines.iter_mut().filter(|(key, _)| key.is_some_and(|key| self.limits.of(key).serial))
        {
            line.make_contiguous().sort_by_key(|(_, job)| job.id);
        }
        let mut turns = turns.clone();
        let turn = |turns: &Turns, key: Option<&'a str>, line: &VecDeque<(usize, &Job)>| {
            line.front().map(|(place, _)| (turns.next(key), *place, key))
        };
        let mut order: BTreeSet<_> =
            lines.iter().filter_map(|(key, line)| turn(&turns, *key, line)).collect();
        let mut picked = Vec::new();
        while picked.len() < most
            && let Some((.., key)) = order.pop_first()
            && let Some(line) = lines.get_mut(&key)
            && let Some((_, job)) = line.pop_front()
        {
            picked.push(job.id);
            self.take(job);
            turns.take(key, self.weight(key));
            if line.front().is_some_and(|(_, next)| self.admits(next)) {
                order.extend(turn(&turns, key, line));
            }
        }
        picked
    }
}

/// Whether these jobs of one queue may be handed out together.
pub(crate) fn admit(state: &State, ids: &[JobId]) -> bool {
    let jobs = || ids.iter().map(|id| &state.jobs[id]);
    let queue = jobs().next().map(|job| &state.lanes[job.lane].queue);
    let Some(mut room) = queue.and_then(|queue| Room::of(state, queue)) else { return true };
    jobs().all(|job| {
        let admits = room.admits(job);
        room.take(job);
        admits
    })
}

/// Notes that it was the turn of these jobs of a lane.
pub(crate) fn take_turns(state: &mut State, lane: usize, ids: &[JobId]) {
    let Some(room) = Room::of(state, &state.lanes[lane].queue) else { return };
    let mut turns = state.lanes[lane].turns.clone();
    for id in ids {
        let key = state.jobs[id].key();
        turns.take(key, room.weight(key));
    }
    turns.forget_past();
    state.lanes[lane].turns = turns;
}

/// Changes the limits of a queue's keys. What is held counts from now on.
pub(crate) fn limit(state: &mut State, queue: &str, change: &KeyLimitsChange) {
    let is_keyed = state.queues.get(queue).is_some_and(|known| known.keys.is_some());
    if !is_keyed && change.only_takes_away() {
        return;
    }
    let name = state.queue(queue);
    let known = state.queues.entry(name).or_default();
    known.keys = change.apply(known.keys.take());
    known.ended.follow(known.keys.as_ref());
    if known.keys.is_none() {
        let lanes = state.lanes.iter_mut().filter(|lane| *lane.queue == *queue);
        lanes.for_each(|lane| lane.turns = Default::default());
    }
    let of_queue = |id: &&JobId| *state.lanes[state.jobs[*id].lane].queue == *queue;
    let (here, mut begun): (BTreeSet<_>, BTreeSet<_>) = state.begun.iter().partition(|id| of_queue(id));
    let here = here.iter().chain(state.held.iter().filter(of_queue));
    begun.extend(here.filter(|id| state.is_serial(**id)));
    state.begun = begun;
}

/// Whether the job that takes the place of this one has its queue and key.
pub(crate) fn is_of_same(state: &State, id: JobId, new: &NewJob) -> bool {
    let key = new.attributes().and_then(|attributes| attributes.key.as_deref());
    state.jobs.get(&id).is_some_and(|job| job.key() == key && *state.lanes[job.lane].queue == *new.queue())
}

/// Forgets the turns of keys that have no jobs waiting.
pub(crate) fn forget(state: &mut State) {
    let jobs = &state.jobs;
    for lane in &mut state.lanes {
        let waiting = lane.available.values().chain(&lane.no_handler);
        let keys: BTreeSet<&str> = waiting.filter_map(|id| jobs[id].key()).collect();
        lane.turns.retain(|key| keys.contains(key));
    }
}
