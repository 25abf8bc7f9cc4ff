use crate::{
    backoff::Backoff,
    gathering::Most,
    permissions::{Next, Permissions},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use windlass_core::{QueueLimits, QueueNeed, Share, Starts, WorkerId};

/// Slots that were not all used for so long are given back.
pub(crate) const UNUSED_FOR: Duration = Duration::from_secs(1);
/// How soon to ask again after an answer that brought nothing: at first, and at most. Hints come earlier.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// Jobs are held for their start no longer than this; others could run them, and they count as running.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(2);
/// How many starts ahead jobs are claimed, as a time.
const HELD_AHEAD: Duration = Duration::from_millis(100);
/// How fast the estimate of what jobs cost falls.
const COST_FALLS: f64 = 0.25;

/// What a queue runner may start of a queue with limits: the share that the store gave this worker.
///
/// Invariant: of the jobs that were claimed under one registration no more run than the store counts slots for, and each
/// started within the grace of a start that the store counted. So nothing is started on a share that a call under way may take back.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Whose share it is, once there is one.
    worker: Option<WorkerId>,
    limits: QueueLimits,
    /// The queue is paused: nothing starts, and nothing is held for its start.
    paused: bool,
    /// The share; `usize::MAX` where nothing limits how many run.
    slots: usize,
    /// More of them than the store gave were asked for: there are no others now.
    is_all: bool,
    asked_slots: usize,
    /// How many jobs may start together at most, as far as slots go.
    most_jobs: usize,
    /// While a call is under way that may take slots back: what ran when it was sent.
    frozen_at: Option<usize>,
    /// Jobs of this registration in an executor.
    running: usize,
    permissions: Permissions,
    /// The jobs for which the store was asked last.
    asked_starts: Starts,
    /// What a job costs: follows a rise at once. Infinite until one is known, so that one is claimed first.
    cost: f64,
    /// Others want slots, and a job has ended since.
    wanted: Option<bool>,
    /// A hint came, or there is work without a share.
    asked_for: bool,
    /// The call before failed, so that everything it was for is still due.
    failed: bool,
    /// A hint came since the store was asked: somebody may wait for what is not used.
    hinted: bool,
    /// All slots were used since the store was asked.
    was_full: bool,
    /// When that was last.
    full_at: Instant,
    not_before: Instant,
    pause: Backoff,
}

/// How many jobs of one registration a queue runner holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) running: usize,
    pub(crate) ready: usize,
    /// How many of those that are ready start together next.
    pub(crate) together: usize,
}

/// What to ask the store for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) running: usize,
    pub(crate) slots: usize,
    pub(crate) starts: Starts,
}

impl Need {
    pub(crate) fn of_queue(self, queue: &Arc<str>) -> QueueNeed {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (running, slots) = (count(self.running), count(self.slots));
        QueueNeed { queue: Arc::clone(queue), running, slots, starts: self.starts }
    }
}

impl Allowance {
    pub(crate) fn new(random: fn() -> f64) -> Self {
        let now = Instant::now();
        Self {
            worker: None,
            limits: QueueLimits::default(),
            paused: false,
            slots: 0,
            is_all: false,
            asked_slots: 0,
            most_jobs: usize::MAX,
            frozen_at: None,
            running: 0,
            permissions: Permissions::Unlimited,
            asked_starts: Starts::default(),
            cost: f64::INFINITY,
            wanted: None,
            asked_for: false,
            failed: false,
            hinted: false,
            was_full: false,
            full_at: now,
            not_before: now,
            pause: Backoff::new(ASK_AGAIN.0, ASK_AGAIN.1, random),
        }
    }

    /// Whether a job that costs so much may start now.
    pub(crate) fn may_start(&self, cost: u32) -> bool {
        self.free_slots() > 0 && self.permissions.allow(cost)
    }

    /// How many jobs of a batch, which cost this, may start now. None of them while the store might let all of the first `together` start: it is asked before.
    pub(crate) fn startable(
        &self,
        costs: impl Iterator<Item = u32> + Clone,
        together: usize,
        concurrency: usize,
    ) -> usize {
        let free = self.free_slots();
        if free < together && self.may_get_slots(concurrency) {
            return 0;
        }
        self.permissions.fit_together(costs.take(free), together)
    }

    fn may_get_slots(&self, concurrency: usize) -> bool {
        !self.is_all && self.slots < concurrency
    }

    /// How much may start together at most.
    pub(crate) fn most(&self) -> Most {
        let cost = self.limits.rate.map_or(u32::MAX, |rate| rate.burst.unwrap_or(rate.count));
        Most { jobs: self.most_jobs, cost }
    }

    /// So many jobs more are good for batches: how many of them to hold, for those that start next with so many slots.
    pub(crate) fn for_batches(&self, jobs: usize, slots: usize) -> usize {
        let jobs = jobs.min(slots);
        match self.limits.rate.is_some() && self.cost.is_finite() {
            true => jobs.min((f64::from(self.most().cost) / self.cost) as usize),
            false => jobs,
        }
    }

    fn free_slots(&self) -> usize {
        if self.paused {
            return 0;
        }
        self.slots.min(self.frozen_at.unwrap_or(usize::MAX)).saturating_sub(self.running)
    }

    /// A job starts that costs so much, which it [may](Self::may_start). Whether all slots are used for the first time since the
    /// store was asked.
    pub(crate) fn started(&mut self, cost: u32) -> bool {
        self.running += 1;
        self.permissions.spend(cost);
        let is_full = self.running >= self.slots;
        if is_full {
            self.full_at = Instant::now();
        }
        is_full && !std::mem::replace(&mut self.was_full, true)
    }

    /// A job ended. Whether the store may have to know.
    pub(crate) fn ended(&mut self, worker: WorkerId) -> bool {
        if self.worker != Some(worker) {
            return false;
        }
        if self.running >= self.slots {
            self.full_at = Instant::now();
        }
        self.running -= 1;
        match &mut self.wanted {
            Some(ended) => {
                // Its slot goes to others; how many are left, the store says.
                (*ended, self.slots) = (true, self.slots.min(self.running));
                true
            }
            None => self.running == 0,
        }
    }

    /// There is work without a share.
    pub(crate) fn ask(&mut self) {
        self.asked_for = true;
    }

    /// The limits may have changed, or others want slots or gave some back: worth a call now.
    pub(crate) fn ask_now(&mut self) {
        (self.asked_for, self.hinted) = (true, true);
        self.pause.reset();
        self.not_before = Instant::now();
    }

    /// How many jobs to run at once and to hold unstarted, at most. `next`: what the next of those that are held costs.
    pub(crate) fn room(&self, concurrency: usize, next: Option<u32>) -> (usize, usize) {
        // Without a slot one job is asked for: the refusal says that there are limits.
        let slots = self.slots.clamp(1, concurrency);
        let Some(rate) = self.limits.rate else { return (slots, usize::MAX) };
        if self.waits_long(next) {
            return (0, 0);
        }
        let ahead = f64::from(rate.count) * HELD_AHEAD.as_secs_f64() / rate.period.as_secs_f64();
        (slots, ((ahead / self.cost) as usize).max(1))
    }

    /// Whether jobs should not be held, because none may start for a while: others may run them. `next`: what the next of them costs.
    pub(crate) fn should_hold_none(&self, next: Option<u32>) -> bool {
        self.paused || self.slots == 0 || self.limits.rate.is_some() && self.gives_back(next)
    }

    /// One that costs more than 1 is kept: it would go behind all others, and the starts that it waits for to them.
    fn gives_back(&self, next: Option<u32>) -> bool {
        self.waits_long(next) && next.is_none_or(|cost| cost == 1)
    }

    fn waits_long(&self, next: Option<u32>) -> bool {
        self.permissions.next(next).is_some_and(|next| next > Instant::now() + LONGEST_HOLD)
    }

    /// When to ask the store, with so many jobs held unstarted. `next`: what starts next of those.
    pub(crate) fn due(&self, ready: usize, next: Option<Next>, concurrency: usize) -> Option<Instant> {
        if self.failed {
            return Some(self.not_before);
        }
        let mut due = self.is_unused(ready).then(|| self.full_at + UNUSED_FOR);
        let mut by = |at: Instant| due = Some(due.map_or(at, |due| due.min(at)));
        // A time that is over for everybody: who compares it with a clock that was read before would find nothing due, again and again.
        let at_once = self.full_at;
        if self.wanted == Some(true) {
            by(at_once);
        }
        if self.asked_for {
            by(self.not_before);
        }
        if self.paused {
            if ready > 0 {
                by(self.not_before); // claimed before the pause, and come since
            }
            return due;
        }
        let is_full = self.running >= self.slots && self.slots < concurrency;
        if is_full && (ready > 0 || self.running > 0) {
            by(self.not_before);
        }
        let is_short = |next: Next| next.jobs > 1 && self.running + next.jobs > self.slots;
        if next.is_some_and(is_short) && self.may_get_slots(concurrency) {
            by(at_once);
        }
        if let Some(next) = next
            && self.running < self.slots
            && let Some(at) = self.permissions.due(next)
        {
            // What has to wait for long is handed back when the store says so once more.
            by(if self.gives_back(Some(next.cost)) { at_once } else { at });
        }
        if ready == 0
            && self.waits_long(None)
            && let Some(at) = self.permissions.next(None)
        {
            // Then jobs may be held again.
            by(at - LONGEST_HOLD);
        }
        due
    }

    fn is_unused(&self, ready: usize) -> bool {
        self.limits.concurrency.is_some() && self.running + ready < self.slots
    }

    /// Whether it depends on what the store has what to ask for.
    pub(crate) fn needs_look(&self, ready: usize, concurrency: usize) -> bool {
        ready == 0 && self.running >= self.slots && self.slots < concurrency
    }

    /// What to ask for now, under this registration, of which so many jobs run. `costs`: of the jobs that wait for no batch. `more`: the
    /// store has jobs that this worker does not hold.
    pub(crate) fn need(
        &mut self,
        worker: WorkerId,
        held: Held,
        costs: impl Iterator<Item = u32> + Clone,
        concurrency: usize,
        more: bool,
    ) -> Need {
        let now = Instant::now();
        if self.worker != Some(worker) {
            (self.worker, self.slots, self.permissions) = (Some(worker), 0, Permissions::none());
        }
        self.running = held.running;
        let used = held.running + held.ready;
        let slots = match self.slots {
            usize::MAX => concurrency,
            slots if used >= slots && (held.ready > 0 || more) => concurrency,
            slots if used < slots && now < self.full_at + UNUSED_FOR && !self.hinted => slots,
            _ => used,
        };
        let slots = slots.min(concurrency).max(held.running);
        let starts = self.permissions.missing(costs.take(slots - held.running), held.together);
        if let Some(rate) = &self.limits.rate
            && !starts.is_empty()
        {
            let each = starts.cost(rate) as f64 / f64::from(starts.jobs());
            let falling =
                if self.cost.is_finite() { self.cost + COST_FALLS * (each - self.cost) } else { each };
            self.cost = each.max(falling);
        }
        self.asked_starts.clone_from(&starts);
        (self.asked_for, self.failed, self.hinted, self.was_full) = (false, false, false, false);
        (self.frozen_at, self.asked_slots) = (Some(held.running), slots);
        Need { running: held.running, slots, starts }
    }

    /// The store's answer to what was asked then. Whether it brought more than there was.
    pub(crate) fn set(&mut self, share: &Share, asked_at: Instant) -> bool {
        let (now, before) = (Instant::now(), self.slots);
        (self.limits, self.paused, self.frozen_at) = (share.limits, share.paused, None);
        self.slots = share.slots.map_or(usize::MAX, |slots| slots as usize);
        self.is_all = share.wanted || self.slots < self.asked_slots;
        self.most_jobs = match share.limits.concurrency {
            Some(_) if self.is_all => self.slots.max(1),
            limit => limit.map_or(usize::MAX, |limit| limit as usize),
        };
        // What others want is not used anew, also where a job ended while this was asked.
        self.wanted = share.wanted.then_some(self.running < self.slots);
        if share.wanted {
            self.slots = self.slots.min(self.running);
        }
        let got_starts = share.starts.is_some_and(|starts| starts > 0);
        let asked = std::mem::take(&mut self.asked_starts);
        self.permissions.set(share, &asked, asked_at);
        let is_more = self.slots > before || got_starts;
        if is_more {
            self.pause.reset();
            self.full_at = now;
            self.not_before = now;
        } else if share.next_start.is_none() || share.paused {
            self.not_before = now + self.pause.step();
        }
        is_more
    }

    /// The call failed, or somebody is changing the limits of the queue. It may have taken slots back, so no more than ran then run until another one says.
    pub(crate) fn failed(&mut self) {
        self.failed = true;
        self.not_before = Instant::now() + self.pause.step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_once_is_due_for_who_read_the_clock_before() {
        let (worker, mut allowance) = (WorkerId(1), Allowance::new(|| 0.5));
        allowance.need(worker, Held { running: 0, ready: 1, together: 1 }, [1].into_iter(), 1, false);
        let limits = QueueLimits::default().with_concurrency(1);
        let share = Share { limits, slots: Some(1), wanted: false, ..Share::UNLIMITED };
        allowance.set(&share, Instant::now());
        allowance.started(1);
        allowance.need(worker, Held { running: 1, ready: 0, together: 1 }, std::iter::empty(), 1, false);
        allowance.set(&Share { wanted: true, ..share }, Instant::now());
        assert!(allowance.ended(worker), "others want its slot");
        let now = Instant::now();
        assert!(allowance.due(0, None, 1).is_some_and(|due| due <= now));
    }
}
