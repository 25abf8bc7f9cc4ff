//! What a worker that runs elsewhere asks for of queues with limits, by the jobs that it has and wants.

use super::{
    RemoteJob,
    limits::{Limited, Want},
    table::Table,
};
use crate::{
    allowance::{self, Allowance, UNUSED_FOR},
    epoch::Phase,
    permissions::Next,
};
use std::sync::Arc;
use tokio::time::Instant;
use windlass_core::{Disposition, QueueNeed, Share, WorkerId};

/// What there is of one queue.
struct View {
    /// What the worker has.
    running: usize,
    /// What the jobs cost that are kept here until they may start.
    kept: Vec<u32>,
    wanted: usize,
    most: usize,
}

impl View {
    /// How many of its jobs could run at once.
    fn capacity(&self) -> usize {
        (self.running + self.wanted).min(self.most).max(self.running)
    }

    /// What those cost that somebody waits for.
    fn awaited(&self) -> &[u32] {
        if self.wanted > 0 { &self.kept } else { &[] }
    }
}

impl Table {
    pub(super) fn begin_wanting(&mut self, want: Option<&Want>) {
        for (queue, count) in self.counted(want) {
            *self.limits.wanted.entry(queue).or_default() += count;
        }
    }

    pub(super) fn end_wanting(&mut self, want: Option<&Want>) {
        for (queue, count) in self.counted(want) {
            let Some(wanted) = self.limits.wanted.get_mut(&queue) else { continue };
            *wanted -= count;
            if *wanted == 0
                && let Some(limited) = self.limits.queues.get_mut(&queue)
            {
                limited.left_at = Instant::now();
            }
        }
    }

    fn counted(&self, want: Option<&Want>) -> Want {
        let count = |(queue, most): (&Arc<str>, &usize)| {
            let wanted = want.map_or(*most, |want| want.get(queue).copied().unwrap_or_default());
            (Arc::clone(queue), wanted.min(*most))
        };
        self.most.iter().map(count).collect()
    }

    /// These queues have limits. `now`: what they are, or who else wants slots, may have changed.
    pub(super) fn limits_are(&mut self, queues: &[Arc<str>], now: bool) {
        for queue in queues.iter().filter(|queue| self.most.contains_key(*queue)) {
            let new = || Limited { allowance: Allowance::new(fastrand::f64), left_at: Instant::now() };
            let limited = self.limits.queues.entry(Arc::clone(queue)).or_insert_with(new);
            if now { limited.allowance.ask_now() } else { limited.allowance.ask() }
        }
    }

    /// Something about all of them may have changed.
    pub(super) fn limits_changed(&mut self) {
        self.limits.queues.values_mut().for_each(|limited| limited.allowance.ask_now());
    }

    /// Which of the queues that a heartbeat told have to be asked for: new ones, and now and then all, as hints may be lost.
    pub(super) fn limits_told(&mut self, queues: &[Arc<str>]) {
        if self.limits.asked_at.is_some_and(|at| at.elapsed() > UNUSED_FOR * 3) {
            self.limits_changed();
        }
        let new: Vec<_> =
            queues.iter().filter(|queue| !self.limits.queues.contains_key(*queue)).cloned().collect();
        self.limits_are(&new, true);
    }

    /// What is left of a want for the queues with limits.
    pub(super) fn left_of(&self, want: Option<&Want>, given: &[RemoteJob]) -> Want {
        let mut left = self.counted(want);
        left.retain(|queue, _| self.limits.queues.contains_key(queue));
        for job in given {
            left.entry(Arc::clone(&job.queue)).and_modify(|count| *count = count.saturating_sub(1));
        }
        left
    }

    fn view(&self, queue: &str) -> View {
        let (mut running, mut kept) = (0, Vec::new());
        for (ticket, held) in self.jobs.iter().filter(|(_, held)| *held.given.queue == *queue) {
            match held.handed_at.is_some() || self.alone == Some(*ticket) {
                true => running += 1,
                false => kept.push(held.given.job.cost()),
            }
        }
        let of = |want: &Want| want.get(queue).copied().unwrap_or_default();
        View { running, kept, wanted: of(&self.limits.wanted), most: of(&self.most) }
    }

    /// How many jobs of the queue to claim because of its limits, if it has that many in all.
    pub(super) fn room_of(&self, queue: &str, coming: usize) -> usize {
        let Some(limited) = self.limits.queues.get(queue) else { return usize::MAX };
        let view = self.view(queue);
        let (slots, held) = limited.allowance.room(view.capacity().max(1), view.kept.first().copied());
        let unstarted = view.kept.len() + coming;
        slots.saturating_sub(view.running + unstarted).min(held.saturating_sub(unstarted))
    }

    /// Whether the store is being asked, or has to be by then.
    pub(super) fn share_is_near(&self, by: Instant) -> bool {
        self.limits.asking || self.shares_due().is_some_and(|due| due <= by)
    }

    /// When to ask the store for a share.
    pub(super) fn shares_due(&self) -> Option<Instant> {
        let due = |(queue, limited): (&Arc<str>, &Limited)| self.due_of(queue, limited);
        self.limits.queues.iter().filter_map(due).min()
    }

    fn due_of(&self, queue: &str, limited: &Limited) -> Option<Instant> {
        let view = self.view(queue);
        let awaited = view.awaited();
        let next = awaited.first().copied().map(Next::one);
        let due = limited.allowance.due(awaited.len(), next, view.capacity());
        let is_left = view.wanted == 0 && !view.kept.is_empty();
        due.into_iter().chain(is_left.then(|| limited.left_at + UNUSED_FOR)).min()
    }

    /// The queues for which the store has to be asked now, and of which of them it has to be known whether there is more.
    pub(super) fn begin_asking(&mut self) -> Vec<(Arc<str>, bool)> {
        let now = Instant::now();
        (self.limits.asking, self.limits.asked_at) = (true, Some(now));
        let is_due = |(queue, limited): &(&Arc<str>, &Limited)| {
            self.due_of(queue, limited).is_some_and(|due| due <= now)
        };
        let look = |(queue, limited): (&Arc<str>, &Limited)| {
            let view = self.view(queue);
            (Arc::clone(queue), limited.allowance.needs_look(view.awaited().len(), view.capacity()))
        };
        self.limits.queues.iter().filter(is_due).map(look).collect()
    }

    /// The store answered, or a call that asked for shares of these failed.
    pub(super) fn end_asking(&mut self, failed: &[(Arc<str>, bool)]) {
        self.limits.asking = false;
        failed.iter().for_each(|(queue, _)| self.share_failed(queue));
    }

    fn share_failed(&mut self, queue: &str) {
        if let Some(limited) = self.limits.queues.get_mut(queue) {
            limited.allowance.failed();
        }
    }

    /// What to ask for. `more`: the store has jobs that this worker does not hold.
    pub(super) fn share_need(&mut self, worker: WorkerId, queue: &Arc<str>, more: bool) -> Option<QueueNeed> {
        let view = self.view(queue);
        let limited = self.limits.queues.get_mut(queue)?;
        let (awaited, capacity) = (view.awaited(), view.capacity());
        let held = allowance::Held { running: view.running, ready: awaited.len(), together: 1 };
        let need = limited.allowance.need(worker, held, awaited.iter().copied(), capacity, more);
        Some(need.of_queue(queue))
    }

    /// The store's answer to what was asked then; `None`: somebody is changing its limits. Whether somebody who waits may get jobs now.
    pub(super) fn set_share(&mut self, queue: &str, share: Option<&Share>, asked_at: Instant) -> bool {
        let Some(share) = share else {
            self.share_failed(queue);
            if self.is_left(queue) {
                self.give_back(queue);
            }
            return false;
        };
        if share.limits.is_none() {
            return self.limits.queues.remove(queue).is_some();
        }
        let (view, is_left) = (self.view(queue), self.is_left(queue));
        let Some(limited) = self.limits.queues.get_mut(queue) else { return false };
        let is_more = limited.allowance.set(share, asked_at);
        if is_left || limited.allowance.should_hold_none(view.kept.first().copied()) {
            self.give_back(queue);
            return is_more;
        }
        match view.kept.is_empty() {
            true => is_more || share.limits.rate.is_some() && self.room_of(queue, 0) > 0,
            false => view.kept.first().is_some_and(|cost| limited.allowance.may_start(*cost)),
        }
    }

    /// Whether nobody has wanted jobs of it for a while.
    fn is_left(&self, queue: &str) -> bool {
        let left = |limited: &Limited| limited.left_at.elapsed() >= UNUSED_FOR;
        self.limits.wanted.get(queue).is_none_or(|wanted| *wanted == 0)
            && self.limits.queues.get(queue).is_some_and(left)
    }

    /// Others may run what is kept here.
    fn give_back(&mut self, queue: &str) {
        let (alone, owed) = (self.alone, &mut self.owed);
        self.jobs.retain(|ticket, held| {
            let is_kept = held.handed_at.is_none() && alone != Some(*ticket) && *held.given.queue == *queue;
            if is_kept {
                owed.push(held.exception(Disposition::Return));
            }
            !is_kept
        });
    }

    /// Whether it is of no use any more.
    pub(super) fn is_over_for_good(&self) -> bool {
        self.phase() == Phase::Lost
    }
}
