use crate::{clock::later, key_rates::Ended, starts::GivenStarts};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};
use windlass_core::{KeyLimits, QueueLimits, QueueNeed, Share, ShareRequest, WorkerId};

/// How long a worker may wait without any slot before one is taken from those that have had theirs for as long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is kept of a queue, beside its jobs.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) paused: bool,
    /// What holds for its keys, if it knows any.
    pub(crate) keys: Option<KeyLimits>,
    /// What counts for their rates, beside what is held.
    pub(crate) ended: Ended,
    limits: QueueLimits,
    shares: BTreeMap<WorkerId, Slots>,
    starts: GivenStarts,
}

/// What a worker has of a queue.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// How many; only counted where concurrency is limited.
    count: u32,
    want: u32,
    since: Timestamp,
    /// That of the request that said so.
    generation: u32,
}

impl Queue {
    pub(crate) fn limits(&self) -> QueueLimits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: QueueLimits) {
        let before = std::mem::replace(&mut self.limits, limits);
        // Nobody has said yet how many it runs.
        if limits.is_none() || limits.concurrency.is_some() && before.concurrency.is_none() {
            self.shares.clear();
        }
        if limits.rate.is_none() {
            self.starts = GivenStarts::default();
        }
    }

    /// Whether the worker may not have jobs of it.
    pub(crate) fn is_closed_to(&self, worker: WorkerId) -> bool {
        let unlimited = self.limits.is_none();
        self.paused || !unlimited && self.shares.get(&worker).is_none_or(|slots| slots.count == 0)
    }

    /// A job of the key is held no more: it counts on where the key has a rate.
    pub(crate) fn let_go(&mut self, key: &str, now: Timestamp) {
        if let Some(rate) = self.keys.as_ref().and_then(|limits| limits.of(key).rate) {
            self.ended.add(key, later(now, rate.period));
        }
    }

    /// The worker ended.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.shares.remove(&worker);
        self.starts.forget(worker);
    }

    /// Gives a worker its share. Whether somebody else should ask again.
    pub(crate) fn share(
        &mut self,
        request: &ShareRequest,
        need: &QueueNeed,
        now: Timestamp,
    ) -> (Share, bool) {
        if self.limits.is_none() {
            return (Share::UNLIMITED, false);
        }
        if self.shares.get(&request.worker).is_some_and(|slots| slots.generation > request.generation) {
            let nothing = Share {
                limits: self.limits,
                slots: Some(0),
                wanted: false,
                starts: Some(0),
                next_start: None,
                paused: self.paused,
            };
            return (nothing, false);
        }
        let need = if self.paused { &need.of_what_runs() } else { need };
        let (slots, wanted, tell) = self.slots(request, need, now);
        let (starts, next_start) = match self.limits.rate {
            Some(rate) => {
                let (starts, next) = self.starts.give(rate, request.worker, &need.starts, now);
                (Some(starts), next)
            }
            None => (None, None),
        };
        (Share { limits: self.limits, slots, wanted, starts, next_start, paused: self.paused }, tell)
    }

    fn slots(
        &mut self,
        request: &ShareRequest,
        need: &QueueNeed,
        now: Timestamp,
    ) -> (Option<u32>, bool, bool) {
        let ShareRequest { worker, generation, .. } = *request;
        let before = self.shares.get(&worker).copied();
        let had = before.map_or(0, |slots| slots.count);
        let others = || self.shares.iter().filter(|(other, _)| **other != worker).map(|(_, slots)| slots);
        let Some(limit) = self.limits.concurrency else {
            self.keep(worker, Slots { count: need.slots, want: need.slots, since: now, generation });
            return (None, false, false);
        };
        let taken: u32 = others().map(|slots| slots.count).sum();
        let free = limit.saturating_sub(taken);
        let hungry = others().any(|slots| slots.want > slots.count);
        let wants = self.shares.iter().filter(|(other, _)| **other != worker);
        let wants = wants.map(|(other, slots)| (slots.want, *other)).chain([(need.slots, worker)]).collect();
        let level = fair(limit, wants, worker);
        // Whoever has waited for long without any goes first.
        let waits = |slots: &Slots| slots.want > 0 && slots.count == 0;
        let is_late = |since: Timestamp| later(since, PATIENCE) <= now;
        let first =
            others().filter(|slots| waits(slots) && is_late(slots.since)).map(|slots| slots.since).min();
        let since = before.map_or(now, |slots| slots.since);
        let starves = before.as_ref().is_some_and(waits) && is_late(since);
        let gives_way = first.is_some_and(|first| had > 0 || first < since);
        // Nobody gives back its only one before its time: it may just have got it.
        let level = level.max(u32::from(had > 0 && !is_late(since)));
        let fair = match gives_way {
            true if is_late(since) => level.min(had.saturating_sub(1)),
            true => level.min(had),
            false => level.max(u32::from(starves)),
        };
        let most = if hungry { need.slots.min(fair) } else { need.slots };
        let count = most.min(free).max(need.running);
        let tell = count < had || count < need.slots.min(level) || count < need.slots && starves;
        let unchanged = before.filter(|slots| slots.count == count && (count > 0 || slots.want > 0));
        let since = unchanged.map_or(now, |slots| slots.since);
        self.keep(worker, Slots { count, want: need.slots, since, generation });
        (Some(count), hungry && count > fair || taken + count > limit, tell)
    }

    fn keep(&mut self, worker: WorkerId, slots: Slots) {
        match slots.count == 0 && slots.want == 0 {
            true => self.shares.remove(&worker),
            false => self.shares.insert(worker, slots),
        };
    }
}

/// How much of the limit each of those who want so much gets where none gets more than another that wants it, but for one that
/// cannot be divided.
fn fair(limit: u32, mut wants: Vec<(u32, WorkerId)>, worker: WorkerId) -> u32 {
    wants.retain(|(want, _)| *want > 0);
    wants.sort_unstable();
    let (mut left, mut rest) = (limit, wants.len() as u32);
    for (nth, (want, of)) in wants.iter().enumerate() {
        if *want > left / rest {
            let place = wants[nth..].iter().filter(|(_, other)| *other < worker).count() as u32;
            return left / rest + u32::from(place < left % rest);
        }
        if *of == worker {
            return *want;
        }
        (left, rest) = (left - want, rest - 1);
    }
    0
}
