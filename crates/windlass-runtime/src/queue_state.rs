//! What a queue runner knows and decides, under its lock.

use crate::{
    ahead::Ahead,
    allowance::Allowance,
    disposition::Settlement,
    epoch::ClaimScope,
    estimate::Prefetch,
    gathering::{BatchedKinds, DueBatch},
    open_claims::OpenClaims,
    permissions::Next,
    popped::{Gathered, Popped},
    ready::{Ready, Unstarted},
    stats::QueueCounters,
    turn::{Activation, Done, HandedIn, Step},
};
use std::sync::Arc;
use tokio::{sync::Notify, time::Instant};
use windlass_core::Disposition;

/// What a queue runner keeps under its lock.
#[derive(Debug)]
pub(crate) struct State {
    concurrency: usize,
    /// Threads of the async runtime.
    parallelism: usize,
    pub(crate) ready: Ready,
    pub(crate) open_claims: OpenClaims,
    /// Executors without a job. The last to fall asleep is woken first, so that the others are seldom disturbed.
    pub(crate) sleeping: Vec<Arc<Notify>>,
    /// Executors that exist.
    pub(crate) executors: usize,
    /// Executors that use a thread or are about to: they do not sleep, and their job does not wait for anything.
    pub(crate) active: usize,
    /// Jobs in an executor, and lent ones.
    pub(crate) running: usize,
    /// How many of them are not the first of their batch: a batch occupies one executor.
    pub(crate) batched: usize,
    pub(crate) prefetch: Prefetch,
    pub(crate) ahead: Ahead,
    /// Finished jobs per second, as the claimer estimates it.
    pub(crate) rate: f64,
    /// The claimer wants to know when there is demand.
    pub(crate) watched: bool,
    /// Jobs went back for which nobody was free, and other workers are to have the first look at them: none are claimed until one of the others ends.
    pub(crate) rests: bool,
    pub(crate) closed: bool,
    /// Of a queue with limits.
    pub(crate) allowance: Option<Box<Allowance>>,
    /// Something about it may have to be said to the store.
    pub(crate) tell_sharer: bool,
    pub(crate) counters: QueueCounters,
    /// [`QueueCounters::finished`] when [`QueueRunner::unstick`] last looked, and how many executors it woke then.
    pub(crate) stuck: (u64, usize),
}

/// What an executor starts next.
enum Start {
    One,
    /// So many jobs of the batch at that place.
    Batch {
        at: usize,
        most: usize,
    },
}

/// What becomes of jobs that will not be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandBack {
    /// Settled as returned: available again as soon as the store knows.
    Return,
    /// Left to deregistering, which hands back everything at once; or to the store that took them.
    Forget,
}

impl State {
    pub(crate) fn new(concurrency: usize, parallelism: usize, batched: BatchedKinds) -> Self {
        Self {
            concurrency,
            parallelism,
            ready: Ready::new(batched),
            open_claims: OpenClaims::default(),
            sleeping: Vec::new(),
            executors: 0,
            active: 0,
            running: 0,
            batched: 0,
            prefetch: Prefetch::default(),
            ahead: Ahead::default(),
            rate: 0.0,
            watched: false,
            rests: false,
            closed: false,
            allowance: None,
            tell_sharer: false,
            counters: QueueCounters::default(),
            stuck: (0, 0),
        }
    }

    /// The next job of an executor.
    pub(crate) fn next(&mut self, scope: &mut Option<Arc<ClaimScope>>, me: &Arc<Notify>) -> Step {
        match self.next_start() {
            Some(Start::Batch { at, most }) => return Step::RunBatch(self.start_batch(at, most)),
            Some(Start::One) => {
                if let Some(popped) = self.ready.pop_one(scope) {
                    self.start(&popped);
                    return Step::Run(popped);
                }
            }
            None => {}
        }
        self.active -= 1;
        self.tell_sharer |= !self.is_full() && self.ready.startable() > 0;
        if self.closed {
            self.executors -= 1;
            return Step::Exit;
        }
        self.sleeping.push(Arc::clone(me));
        let Some(due) = self.alarm_due() else { return Step::Sleep };
        self.ready.gatherings.iter_mut().for_each(|gatherings| gatherings.set_alarm(due, me));
        Step::SleepUntil(due)
    }

    fn start_batch(&mut self, at: usize, most: usize) -> Vec<Gathered> {
        let batch = self.ready.pop_batch(at, most);
        batch.iter().for_each(|job| self.start(&job.popped));
        self.batched += batch.len() - 1;
        batch
    }

    fn start(&mut self, popped: &Popped) {
        self.open_claims.started(popped.slot);
        if let Some(allowance) = &mut self.allowance {
            self.tell_sharer |= allowance.started(popped.job.cost());
        }
        self.running += 1;
    }

    /// When an executor has to look after the batches, unless one will by then.
    fn alarm_due(&self) -> Option<Instant> {
        let gatherings = self.ready.gatherings.as_ref().filter(|gatherings| gatherings.len() > 0)?;
        gatherings.alarm_due(Instant::now())
    }

    /// Whether as many jobs run as may: lent ones as well, for which no executor waits. A batch counts as one.
    pub(crate) fn is_full(&self) -> bool {
        self.running - self.batched >= self.concurrency
    }

    /// What is started next, if that may be started now.
    fn next_start(&self) -> Option<Start> {
        if self.is_full() {
            return None;
        }
        let allowance = self.allowance.as_ref();
        let Some(DueBatch { at, jobs, together }) = self.ready.due_batch() else {
            let allows = match allowance {
                None => self.ready.unbatched() > 0,
                Some(allowance) => self.ready.next_one().is_some_and(|job| allowance.may_start(job.cost())),
            };
            return allows.then_some(Start::One);
        };
        let costs = jobs.iter().map(|job| job.popped.job.cost());
        let capacity = self.capacity();
        let most = allowance.map_or(jobs.len(), |allowance| allowance.startable(costs, together, capacity));
        (most > 0).then_some(Start::Batch { at, most })
    }

    pub(crate) fn may_start(&self) -> bool {
        self.next_start().is_some()
    }

    /// What the limits have to let start next. Nothing while there is no executor for it: what was let start would go to waste.
    pub(crate) fn next_limited(&self) -> Option<Next> {
        if self.is_full() {
            return None;
        }
        match self.ready.due_batch() {
            None => self.ready.costs().next().map(Next::one),
            Some(batch) => Next::batch(batch.jobs[..batch.together].iter().map(|job| job.popped.job.cost())),
        }
    }

    /// Whether what is ready waits for nothing but its limits.
    fn waits_for_limits(&self) -> bool {
        self.allowance.is_some() && !self.is_full() && self.ready.startable() > 0 && !self.may_start()
    }

    /// The same of a batch, which may have become full just now.
    pub(crate) fn batch_waits_for_limits(&self) -> bool {
        self.allowance.is_some() && self.ready.due_batch().is_some() && self.waits_for_limits()
    }

    /// A job of that claim ended, which the store may have to know because of limits.
    pub(crate) fn note_end(&mut self, slot: u32) {
        if let Some(allowance) = &mut self.allowance
            && let Some(worker) = self.open_claims.worker_of(slot)
        {
            self.tell_sharer |= allowance.ended(worker);
        }
    }

    pub(crate) fn settle(&mut self, slot: u32) -> Step {
        self.active -= 1;
        Step::Settle(self.open_claims.settlement(slot))
    }

    pub(crate) fn finish_all(&mut self, jobs: Vec<Done>) -> HandedIn {
        let mut whole_claim = false;
        for done in jobs {
            self.note_end(done.slot);
            whole_claim |= self.finish(done);
        }
        let tell_sharer = std::mem::take(&mut self.tell_sharer) || self.waits_for_limits();
        let became_idle = self.closed && self.running == 0;
        HandedIn { whole_claim, tell_sharer, became_idle, settled: Vec::new() }
    }

    /// Enters a result. Whether its claim is finished as a whole.
    pub(crate) fn finish(&mut self, done: Done) -> bool {
        let Done { slot, index, position, settlement, waited } = done;
        self.running -= 1;
        self.active += usize::from(waited);
        self.counters.finished += 1;
        match settlement {
            Settlement::WithClaim => {
                self.counters.completed += 1;
                self.rests = false;
                self.open_claims.complete(slot, index)
            }
            Settlement::ByItself(disposition) => {
                self.counters.count(&disposition);
                self.rests &= matches!(*disposition, Disposition::Return);
                self.open_claims.add_exception(slot, index, position, *disposition)
            }
        }
    }

    pub(crate) fn hand_back(&mut self, unstarted: Unstarted, how: HandBack) {
        for claim in unstarted.claims {
            match how {
                HandBack::Forget => self.open_claims.forget(claim.slot, claim.jobs.len() as u32),
                HandBack::Return => {
                    for (index, job) in (claim.next..).zip(claim.jobs) {
                        self.give_back(claim.slot, index, job.position);
                    }
                }
            }
        }
        for Gathered { popped: Popped { slot, index, job }, .. } in unstarted.gathered {
            match how {
                HandBack::Forget => self.open_claims.forget(slot, 1),
                HandBack::Return => self.give_back(slot, index, job.position),
            }
        }
    }

    fn give_back(&mut self, slot: u32, index: u32, position: i64) {
        self.counters.count(&Disposition::Return);
        self.open_claims.started(slot);
        self.open_claims.add_exception(slot, index, position, Disposition::Return);
    }

    /// How many jobs may run at once.
    pub(crate) fn capacity(&self) -> usize {
        let largest = self.ready.gatherings.as_ref().map_or(1, |gatherings| gatherings.largest());
        let free = self.concurrency.saturating_sub(self.running - self.batched);
        // Batches that run may be larger than any that comes.
        self.concurrency.saturating_mul(largest).max(self.running + free.saturating_mul(largest))
    }

    pub(crate) fn want(&self) -> usize {
        if self.closed || self.rests {
            return 0;
        }
        let wanted = self.want_for_executors();
        let Some(allowance) = &self.allowance else { return wanted };
        // What waits for its batch uses nothing of the limits, and what it lacks is claimed beside what these let start.
        let ready = self.ready.startable();
        let (slots, held) = allowance.room(self.capacity(), self.ready.costs().next());
        let missing = self.ready.gatherings.as_ref().map_or(0, |gatherings| gatherings.missing());
        let missing = allowance.for_batches(missing, slots);
        let want = self.prefetch.and_for_batches(missing).want(slots, self.running, ready);
        want.min(wanted).min(held.saturating_add(missing).saturating_sub(ready))
    }

    /// Whether the claimer is to be told that there is demand: once, when it asked for that.
    pub(crate) fn tell_claimer(&mut self) -> bool {
        let tell = self.watched && self.want() > 0;
        self.watched &= !tell;
        tell
    }

    /// How many jobs to claim where nothing limits how many run. A batch that runs occupies one executor, and one that
    /// comes together none.
    fn want_for_executors(&self) -> usize {
        let missing = self.ready.gatherings.as_ref().map_or(0, |gatherings| gatherings.missing());
        let most = self.ahead.most(self.counters.finished).filter(|_| self.is_full());
        let missing = most.map_or(missing, |most| missing.min(most));
        let prefetch = self.prefetch.and_for_batches(missing);
        prefetch.want(self.concurrency, self.running - self.batched, self.ready.unbatched())
    }

    pub(crate) fn has_unused_executor(&self) -> bool {
        !self.sleeping.is_empty() || self.executors < self.concurrency
    }

    /// Unless as many executors are active as there are threads.
    pub(crate) fn activate_if_needed(&mut self) -> Option<Activation> {
        let needed = self.active < self.parallelism && (self.may_start() || self.alarm_due().is_some());
        if needed { self.activate_one() } else { None }
    }

    /// This executor does not sleep any more.
    pub(crate) fn woken(&mut self, sleeper: &Arc<Notify>) {
        self.active += 1;
        self.ready.gatherings.iter_mut().for_each(|gatherings| gatherings.forget_alarm(sleeper));
    }

    pub(crate) fn activate_one(&mut self) -> Option<Activation> {
        let activation = match self.sleeping.pop() {
            Some(sleeper) => {
                self.woken(&sleeper);
                Activation::Wake(sleeper)
            }
            None if self.executors < self.concurrency => {
                self.executors += 1;
                self.active += 1;
                Activation::Spawn
            }
            None => return None,
        };
        Some(activation)
    }
}
