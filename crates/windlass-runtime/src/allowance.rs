use crate::backoff::Backoff;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{QueueLimits, RateLimit, Share, WorkerId};

/// Slots that were not all used for so long are given back.
const UNUSED_FOR: Duration = Duration::from_secs(1);
/// How soon to ask again after an answer that brought nothing: at first, and at most. Hints come earlier.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));
/// Jobs are held for their start no longer than this; others could run them, and they count as running.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(2);
/// When to ask for starts again where the store does not say.
const NEXT_START: Duration = Duration::from_millis(1);
/// How many starts ahead jobs are claimed, as a time.
const HELD_AHEAD: Duration = Duration::from_millis(100);

/// What a queue runner may start of a queue with limits: the share that the store gave this worker.
///
/// Invariant: of the jobs that were claimed under one registration no more run than the store counts slots for, and each
/// started within the grace of a start that the store counted. So nothing is started on a share that a call under way may take back.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Whose share it is, once there is one.
    worker: Option<WorkerId>,
    limits: QueueLimits,
    /// The share; `usize::MAX` where nothing limits how many run.
    slots: usize,
    /// While a call is under way that may take slots back: what ran when it was sent.
    frozen_at: Option<usize>,
    /// Jobs of this registration in an executor.
    running: usize,
    starts: Starts,
    /// Others want slots, and a job has ended since.
    wanted: Option<bool>,
    /// A hint came, or there is work without a share.
    asked_for: bool,
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
    /// How many of these are not waiting for a batch.
    pub(crate) startable: usize,
}

/// What to ask the store for; see [`windlass_core::QueueNeed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) running: usize,
    pub(crate) slots: usize,
    pub(crate) starts: usize,
}

/// Permissions to start.
#[derive(Clone, Copy, Debug)]
enum Starts {
    Unlimited,
    /// So many until then; more are to be had from the other time on.
    Limited {
        left: usize,
        until: Instant,
        next: Instant,
    },
}

impl Allowance {
    pub(crate) fn new(random: fn() -> f64) -> Self {
        let now = Instant::now();
        Self {
            worker: None,
            limits: QueueLimits::default(),
            slots: 0,
            frozen_at: None,
            running: 0,
            starts: Starts::Unlimited,
            wanted: None,
            asked_for: false,
            hinted: false,
            was_full: false,
            full_at: now,
            not_before: now,
            pause: Backoff::new(ASK_AGAIN.0, ASK_AGAIN.1, random),
        }
    }

    /// Whether a job may start now.
    pub(crate) fn may_start(&self) -> bool {
        self.startable() > 0
    }

    /// How many jobs may start now.
    pub(crate) fn startable(&self) -> usize {
        let starts = match self.starts {
            Starts::Unlimited => usize::MAX,
            Starts::Limited { left, until, .. } if left > 0 && Instant::now() < until => left,
            Starts::Limited { .. } => 0,
        };
        let slots = self.slots.min(self.frozen_at.unwrap_or(usize::MAX));
        starts.min(slots.saturating_sub(self.running))
    }

    /// A job starts, which it [may](Self::may_start). Whether all slots are used for the first time since the store was asked.
    pub(crate) fn started(&mut self) -> bool {
        self.running += 1;
        if let Starts::Limited { left, .. } = &mut self.starts {
            *left -= 1;
        }
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

    /// How many jobs to run at once and to hold unstarted, at most.
    pub(crate) fn room(&self, concurrency: usize) -> (usize, usize) {
        // Without a slot one job is asked for: the refusal says that there are limits.
        let slots = self.slots.clamp(1, concurrency);
        let Some(rate) = self.limits.rate else { return (slots, usize::MAX) };
        if self.next_start().is_some_and(|next| next > Instant::now() + LONGEST_HOLD) {
            return (0, 0);
        }
        let ahead = f64::from(rate.count) * HELD_AHEAD.as_secs_f64() / rate.period.as_secs_f64();
        (slots, (ahead as usize).max(1))
    }

    /// Whether jobs should not be held, because none may start for a while: others may run them.
    pub(crate) fn should_hold_none(&self) -> bool {
        self.slots == 0 || self.room(1) == (0, 0)
    }

    fn next_start(&self) -> Option<Instant> {
        match self.starts {
            Starts::Limited { left: 0, next, .. } => Some(next),
            _ => None,
        }
    }

    /// When to ask the store, with so many jobs held unstarted, and so many of them that wait for no batch.
    pub(crate) fn due(&self, ready: usize, startable: usize, concurrency: usize) -> Option<Instant> {
        let mut due = self.is_unused(ready).then(|| self.full_at + UNUSED_FOR);
        let mut by = |at: Instant| due = Some(due.map_or(at, |due| due.min(at)));
        if self.wanted == Some(true) {
            by(Instant::now());
        }
        if self.asked_for {
            by(self.not_before);
        }
        let is_full = self.running >= self.slots && self.slots < concurrency;
        if is_full && (ready > 0 || self.running > 0) {
            by(self.not_before);
        }
        if let Starts::Limited { left, until, next } = self.starts
            && startable > 0
            && self.running < self.slots
        {
            match left {
                0 => by(next),
                _ => by(until),
            }
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

    /// What to ask for now, under this registration, of which so many jobs run. `more`: the store has jobs that this worker
    /// does not hold.
    pub(crate) fn need(&mut self, worker: WorkerId, held: Held, concurrency: usize, more: bool) -> Need {
        let now = Instant::now();
        if self.worker != Some(worker) {
            (self.worker, self.slots, self.starts) =
                (Some(worker), 0, Starts::Limited { left: 0, until: now, next: now });
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
        let starts = match self.starts {
            Starts::Limited { left, until, .. } if left > 0 && now < until => 0,
            _ => held.startable.min(slots - held.running),
        };
        (self.asked_for, self.hinted, self.was_full) = (false, false, false);
        self.frozen_at = Some(held.running);
        Need { running: held.running, slots, starts }
    }

    /// The store's answer to what was asked then.
    pub(crate) fn set(&mut self, share: &Share, asked_at: Instant) {
        let (now, before) = (Instant::now(), self.slots);
        (self.limits, self.frozen_at) = (share.limits, None);
        self.slots = share.slots.map_or(usize::MAX, |slots| slots as usize);
        // What others want is not used anew, also where a job ended while this was asked.
        self.wanted = share.wanted.then_some(self.running < self.slots);
        if share.wanted {
            self.slots = self.slots.min(self.running);
        }
        let got_starts = share.starts.is_some_and(|starts| starts > 0);
        self.starts = match (share.limits.rate, share.starts) {
            (Some(rate), Some(starts)) => {
                self.with_starts(rate, starts as usize, share.next_start, asked_at, now)
            }
            _ => Starts::Unlimited,
        };
        if self.slots > before || got_starts {
            self.pause.reset();
            self.full_at = now;
            self.not_before = now;
        } else if share.next_start.is_none() {
            self.not_before = now + self.pause.step();
        }
    }

    fn with_starts(
        &self,
        rate: RateLimit,
        new: usize,
        next: Option<Duration>,
        asked_at: Instant,
        now: Instant,
    ) -> Starts {
        match self.starts {
            Starts::Limited { left, until, next } if new == 0 && left > 0 && now < until => {
                Starts::Limited { left, until, next }
            }
            _ => Starts::Limited {
                left: new,
                until: asked_at + rate.grace(),
                next: now + next.unwrap_or(NEXT_START),
            },
        }
    }

    /// The call failed. It may have taken slots back, so no more than ran then run until another one says.
    pub(crate) fn failed(&mut self) {
        self.asked_for = true;
        self.not_before = Instant::now() + self.pause.step();
    }
}
