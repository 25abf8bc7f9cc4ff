use crate::clock::{later, until};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use windlass_core::{RateLimit, RateWindow, Starts, WorkerId};

/// How long after it was told to ask again a worker keeps its place.
const PATIENCE: Duration = Duration::from_secs(1);
/// When to ask again who waits only for one before it.
const BEHIND: Duration = Duration::from_millis(20);

/// Permissions to start jobs of a queue that limits how many begin in a time.
#[derive(Debug, Default)]
pub(crate) struct GivenStarts {
    /// When how many were given out, oldest first.
    given: VecDeque<(Timestamp, u32)>,
    /// Whose next job costs more than was free.
    waiting: BTreeMap<WorkerId, Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    since: Timestamp,
    until: Timestamp,
    cost: u32,
}

impl GivenStarts {
    /// The worker ended. What it has may have been used.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.waiting.remove(&worker);
    }

    /// Permissions for as many of the jobs as may start, in their order; if not for all, when the next may.
    pub(crate) fn give(
        &mut self,
        rate: RateLimit,
        worker: WorkerId,
        wanted: &Starts,
        now: Timestamp,
    ) -> (u32, Option<Duration>) {
        let now = self.given.back().map_or(now, |(last, _)| now.max(*last));
        self.forget_before(&rate, now);
        self.waiting.retain(|_, place| place.until > now);
        let Some(first) = wanted.first(&rate) else {
            self.waiting.remove(&worker);
            return (0, None);
        };
        let ahead = self.ahead_of(worker);
        let most = rate.windows().map(|window| self.most(&rate, window, now, ahead, first)).min();
        let (count, next) = wanted.fitting(&rate, most.unwrap_or(0));
        if count > 0 {
            self.given.push_back((now, count));
        }
        let before = self.waiting.remove(&worker).filter(|_| count == 0);
        let Some(cost) = next else { return (count, None) };
        let at = rate.windows().map(|window| self.free_at(&rate, window, now, ahead.saturating_add(cost)));
        let at = at.max().unwrap_or(now).max(if ahead > 0 { later(now, BEHIND) } else { now });
        if cost > 1 || count == 0 && ahead > 0 {
            let since = before.map_or(now, |place| place.since);
            self.waiting.insert(worker, Place { since, until: later(at, PATIENCE), cost });
        }
        (count, Some(until(now, at)))
    }

    /// What those need that were before this worker.
    fn ahead_of(&self, worker: WorkerId) -> u32 {
        let rank = |worker: WorkerId, place: &Place| (place.since, worker);
        let mine = self.waiting.get(&worker).map(|place| rank(worker, place));
        let before = self.waiting.iter().filter(|(other, place)| {
            **other != worker && mine.is_none_or(|mine| rank(**other, place) < mine)
        });
        before.fold(0, |sum, (_, place)| sum.saturating_add(place.cost))
    }

    /// The most that the window allows to be given out now. One that is empty has room for one job of any cost.
    fn most(&self, rate: &RateLimit, window: RateWindow, now: Timestamp, ahead: u32, first: u32) -> u32 {
        let sum = self.within(rate, window, now).map(|(_, count)| count).fold(ahead, u32::saturating_add);
        if sum == 0 { window.count.max(first) } else { window.count.saturating_sub(sum) }
    }

    /// When the window has room for so many; for more than its count: when it is empty.
    fn free_at(&self, rate: &RateLimit, window: RateWindow, now: Timestamp, room: u32) -> Timestamp {
        let mut sum: u32 = self.within(rate, window, now).map(|(_, count)| count).sum();
        let most = window.count.saturating_sub(room);
        let mut at = now;
        for (given_at, count) in self.within(rate, window, now) {
            if sum <= most {
                break;
            }
            at = later(given_at, window.length + rate.grace());
            sum -= count;
        }
        at
    }

    /// What was given out in the window that ends now. A permission counts for as much longer as it may be kept.
    fn within(
        &self,
        rate: &RateLimit,
        window: RateWindow,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, u32)> {
        let counts_for = window.length + rate.grace();
        self.given.iter().copied().filter(move |(at, _)| later(*at, counts_for) > now)
    }

    fn forget_before(&mut self, rate: &RateLimit, now: Timestamp) {
        let longest = rate.windows().map(|window| window.length + rate.grace()).max().unwrap_or_default();
        while self.given.front().is_some_and(|(at, _)| later(*at, longest) <= now) {
            self.given.pop_front();
        }
    }
}
