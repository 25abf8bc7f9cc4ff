use crate::{
    QueueConfig, Settling,
    allowance::Allowance,
    batch::Batches,
    disposition::Settlement,
    epoch::{ClaimScope, Epoch},
    estimate::{Prefetch, Rate},
    gathering::BatchedKinds,
    open_claims::OpenClaims,
    popped::{Gathered, Popped},
    ready::{Ready, ReadyClaim, Unstarted},
    round::Round,
    stats::QueueCounters,
    sync::{Mutex, MutexGuard},
    turn::{Activation, Done, HandedIn, Step, Turn},
};
use std::sync::{Arc, PoisonError};
use tokio::{sync::Notify, time::Instant};
use windlass_core::{Claim, Disposition, JobId};

/// One queue of the worker: its ready jobs, its executors and its open claims, behind one short lock.
///
/// Executors are tasks: each is started when it is first needed, and kept. One that finds no job sleeps.
/// Adding jobs wakes one executor; each executor that leaves more ready jobs behind wakes another, but
/// only while fewer are active than there are threads to poll them. Jobs that never wait are thus run by
/// that many executors alone, and an executor whose job waits makes room for the next.
#[derive(Debug)]
pub(crate) struct QueueRunner {
    queue: Arc<str>,
    concurrency: usize,
    /// Threads of the async runtime.
    parallelism: usize,
    settling: Settling,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) ready: Ready,
    pub(crate) open_claims: OpenClaims,
    /// Executors without a job. The last to fall asleep is woken first, so that the others are seldom disturbed.
    sleeping: Vec<Arc<Notify>>,
    /// Executors that exist.
    executors: usize,
    /// Executors that use a thread or are about to: they do not sleep, and their job does not wait for anything.
    active: usize,
    /// Jobs in an executor.
    running: usize,
    /// How many of them are not the first of their batch: a batch occupies one executor.
    batched: usize,
    prefetch: Prefetch,
    /// Finished jobs per second, as the claimer estimates it.
    rate: f64,
    /// The claimer wants to know when there is demand.
    watched: bool,
    pub(crate) closed: bool,
    /// Of a queue with limits.
    pub(crate) allowance: Option<Box<Allowance>>,
    /// Something about it may have to be said to the store.
    tell_sharer: bool,
    counters: QueueCounters,
    /// [`QueueCounters::finished`] when [`QueueRunner::unstick`] last looked, and how many executors it woke then.
    stuck: (u64, usize),
}

/// How many jobs of a queue are in which stage.
pub(crate) struct QueueSnapshot {
    pub(crate) counters: QueueCounters,
    /// In an executor.
    pub(crate) running: usize,
    /// Claimed, not started.
    pub(crate) ready: usize,
    /// Finished, and the store does not know yet.
    pub(crate) unsettled: usize,
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

impl QueueRunner {
    pub(crate) fn new(
        queue: &QueueConfig,
        settling: Settling,
        parallelism: usize,
        batched: BatchedKinds,
    ) -> Self {
        let (queue, concurrency) = (queue.queue.as_str().into(), queue.concurrency);
        let state = Mutex::new(State { ready: Ready::new(batched), ..State::default() });
        Self { queue, concurrency, parallelism, settling, state }
    }

    pub(crate) fn queue(&self) -> &Arc<str> {
        &self.queue
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock would be a defect; the state stays usable for shutting down.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one critical section per job: an executor hands in the result of its last job and takes the next.
    pub(crate) fn turn(
        &self,
        done: Option<Done>,
        scope: &mut Option<Arc<ClaimScope>>,
        me: &Arc<Notify>,
    ) -> Turn {
        let mut state = self.lock();
        let handed_in = done.as_ref().map(|done| done.slot).filter(|_| self.settling == Settling::Strict);
        let done = done.inspect(|done| state.note_end(done.slot));
        let tell_settler = done.map(|done| state.finish(done));
        let step = match handed_in {
            Some(slot) => state.settle(slot),
            None => state.next(scope, me),
        };
        let tell_sharer = std::mem::take(&mut state.tell_sharer);
        let activation = state.activate_if_needed(self);
        let tell_claimer = state.watched && state.want(self.concurrency) > 0;
        state.watched &= !tell_claimer;
        let became_idle = state.closed && state.running == 0;
        Turn { step, activation, tell_claimer, tell_settler, tell_sharer, became_idle }
    }

    /// An executor hands in the results of a batch.
    pub(crate) fn finish_batch(&self, jobs: Vec<Done>) -> HandedIn {
        let mut state = self.lock();
        state.batched -= jobs.len() - 1;
        let mut slots: Vec<_> = jobs.iter().map(|done| done.slot).collect();
        let mut handed_in = state.finish_all(jobs);
        if self.settling == Settling::Strict {
            slots.sort_unstable();
            slots.dedup();
            state.active -= 1;
            handed_in.settled = slots.into_iter().map(|slot| state.open_claims.settlement(slot)).collect();
        }
        handed_in
    }

    /// Some jobs of a batch are not started after all; the executor goes on with the others.
    pub(crate) fn leave_batch(&self, jobs: Vec<Done>) -> HandedIn {
        let mut state = self.lock();
        state.batched -= jobs.len();
        state.finish_all(jobs)
    }

    /// An executor that slept until a batch is due wakes. Whether it goes on; otherwise somebody just woke it.
    pub(crate) fn wakes_by_itself(&self, me: &Arc<Notify>) -> bool {
        let mut state = self.lock();
        let Some(at) = state.sleeping.iter().position(|sleeper| Arc::ptr_eq(sleeper, me)) else {
            return false;
        };
        state.sleeping.remove(at);
        state.woken(me);
        true
    }

    /// Lets the oldest batch that comes together start as it is.
    #[cfg(feature = "testing")]
    pub(crate) fn start_batch(&self) -> Option<Activation> {
        let mut state = self.lock();
        state.ready.gatherings.as_mut()?.make_due();
        state.activate_if_needed(self)
    }

    /// How many jobs wait for their batch.
    #[cfg(feature = "testing")]
    pub(crate) fn gathered(&self) -> usize {
        self.lock().ready.gatherings.as_ref().map_or(0, |gatherings| gatherings.len())
    }

    /// An executor that waited for a settlement goes on.
    pub(crate) fn resumes(&self) {
        self.lock().active += 1;
    }

    /// The job of an executor waits for something, so another executor may use the thread.
    pub(crate) fn waits(&self) -> Option<Activation> {
        let mut state = self.lock();
        state.active -= 1;
        state.activate_if_needed(self)
    }

    /// Adds a claim that was asked for at this time. Its jobs are dropped when the epoch was lost meanwhile.
    pub(crate) fn deliver(
        &self,
        epoch: &Arc<Epoch>,
        claim: Claim,
        asked_at: Instant,
        closed: HandBack,
    ) -> Option<Activation> {
        let mut state = self.lock();
        if epoch.is_lost() {
            return None;
        }
        state.counters.claimed += claim.jobs.len() as u64;
        let (epoch, queue) = (Arc::clone(epoch), Arc::clone(&self.queue));
        let scope = Arc::new(ClaimScope::new(epoch, claim.reference, queue, claim.priority, asked_at));
        let slot = state.open_claims.add(Arc::clone(&scope), &claim.jobs);
        let ready = ReadyClaim { scope, slot, next: 0, jobs: claim.jobs.into_iter() };
        if state.closed {
            state.hand_back(Unstarted { claims: vec![ready], gathered: Vec::new() }, closed);
            return None;
        }
        state.ready.push(ready);
        state.activate_if_needed(self)
    }

    /// How many jobs to claim now; 0 when that is not worth a call.
    pub(crate) fn want(&self, prefetch: Prefetch, rate: Rate) -> usize {
        let mut state = self.lock();
        state.prefetch = prefetch;
        state.rate = rate.per_second();
        state.watched = false;
        state.want(self.concurrency)
    }

    /// Whether there is demand; if not, the claimer will be told when there is.
    pub(crate) fn watch(&self) -> bool {
        let mut state = self.lock();
        state.watched = state.want(self.concurrency) == 0;
        !state.watched
    }

    /// Activates executors although all threads seem busy: when no job finished since the last call, handlers may
    /// block their threads. Activates twice as many each time.
    pub(crate) fn unstick(&self) -> Vec<Activation> {
        let mut state = self.lock();
        let finished = state.counters.finished;
        if !state.has_unused_executor(self.concurrency) || !state.may_start() {
            return Vec::new();
        }
        if state.stuck.0 != finished {
            state.stuck = (finished, 0);
            return Vec::new();
        }
        let count = (state.stuck.1 * 2).max(1).min(state.ready.len());
        state.stuck.1 = count;
        (0..count).map_while(|_| state.activate_one(self.concurrency)).collect()
    }

    /// Whether jobs wait although there are executors for them.
    pub(crate) fn may_be_stuck(&self) -> bool {
        let state = self.lock();
        state.may_start() && state.has_unused_executor(self.concurrency)
    }

    /// Drops the unstarted jobs of the claims that `goes` selects: those of a lost epoch, or claims that the store forgot.
    pub(crate) fn drop_unstarted(&self, goes: impl Fn(&ClaimScope) -> bool) {
        let mut state = self.lock();
        let gone = state.ready.remove(goes);
        state.hand_back(gone, HandBack::Forget);
    }

    /// The claims of this epoch that have unfinished jobs among these, which ascend; with those jobs.
    pub(crate) fn claims_of(&self, epoch: &Arc<Epoch>, jobs: &[JobId]) -> Vec<(Arc<ClaimScope>, Vec<JobId>)> {
        self.lock().open_claims.claims_of(epoch, jobs)
    }

    /// Starts no more jobs and ends the executors. Returns the unstarted jobs.
    pub(crate) fn close(&self) -> Unstarted {
        let mut state = self.lock();
        state.closed = true;
        for sleeper in std::mem::take(&mut state.sleeping) {
            state.active += 1;
            sleeper.notify_one();
        }
        state.ready.remove(|_| true)
    }

    pub(crate) fn hand_back(&self, unstarted: Unstarted, how: HandBack) {
        self.lock().hand_back(unstarted, how);
    }

    pub(crate) fn collect(&self, round: &Round, batches: &mut Batches) -> bool {
        let mut state = self.lock();
        let round = Round { rate: state.rate, ..*round };
        state.open_claims.collect(&round, batches)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.lock().open_claims.is_dirty()
    }

    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        let state = self.lock();
        QueueSnapshot {
            counters: state.counters,
            running: state.running,
            ready: state.ready.len(),
            unsettled: state.open_claims.unsettled(),
        }
    }
}

impl State {
    /// The next job of an executor.
    fn next(&mut self, scope: &mut Option<Arc<ClaimScope>>, me: &Arc<Notify>) -> Step {
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
        self.tell_sharer |= self.ready.startable() > 0;
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

    /// What is started next, if that may be started now.
    fn next_start(&self) -> Option<Start> {
        let allowance = self.allowance.as_ref();
        let Some((at, jobs)) = self.ready.due_batch() else {
            let allows = match allowance {
                None => self.ready.unbatched() > 0,
                Some(allowance) => self.ready.next_one().is_some_and(|job| allowance.may_start(job.cost())),
            };
            return allows.then_some(Start::One);
        };
        let costs = jobs.iter().map(|job| job.popped.job.cost());
        let most = allowance.map_or(jobs.len(), |allowance| allowance.startable(costs));
        (most > 0).then_some(Start::Batch { at, most })
    }

    fn may_start(&self) -> bool {
        self.next_start().is_some()
    }

    /// A job of that claim ended, which the store may have to know because of limits.
    fn note_end(&mut self, slot: u32) {
        if let Some(allowance) = &mut self.allowance
            && let Some(worker) = self.open_claims.worker_of(slot)
        {
            self.tell_sharer |= allowance.ended(worker);
        }
    }

    fn settle(&mut self, slot: u32) -> Step {
        self.active -= 1;
        Step::Settle(self.open_claims.settlement(slot))
    }

    fn finish_all(&mut self, jobs: Vec<Done>) -> HandedIn {
        let mut whole_claim = false;
        for done in jobs {
            self.note_end(done.slot);
            whole_claim |= self.finish(done);
        }
        let tell_sharer = std::mem::take(&mut self.tell_sharer);
        let became_idle = self.closed && self.running == 0;
        HandedIn { whole_claim, tell_sharer, became_idle, settled: Vec::new() }
    }

    /// Enters a result. Whether its claim is finished as a whole.
    fn finish(&mut self, done: Done) -> bool {
        let Done { slot, index, position, settlement, waited } = done;
        self.running -= 1;
        self.active += usize::from(waited);
        self.counters.finished += 1;
        match settlement {
            Settlement::WithClaim => {
                self.counters.completed += 1;
                self.open_claims.complete(slot, index)
            }
            Settlement::ByItself(disposition) => {
                self.counters.count(&disposition);
                self.open_claims.add_exception(slot, index, position, disposition)
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
    pub(crate) fn capacity(&self, concurrency: usize) -> usize {
        let largest = self.ready.gatherings.as_ref().map_or(1, |gatherings| gatherings.largest());
        concurrency.saturating_mul(largest)
    }

    fn want(&self, concurrency: usize) -> usize {
        if self.closed {
            return 0;
        }
        let wanted = self.want_for_executors(concurrency);
        let Some(allowance) = &self.allowance else { return wanted };
        let ready = self.ready.len();
        let (slots, held) = allowance.room(self.capacity(concurrency), self.ready.costs().next());
        self.prefetch.want(slots, self.running, ready).min(wanted).min(held.saturating_sub(ready))
    }

    /// How many jobs to claim where nothing limits how many run. A batch that runs occupies one executor, and one that
    /// comes together none.
    fn want_for_executors(&self, concurrency: usize) -> usize {
        let missing = self.ready.gatherings.as_ref().map_or(0, |gatherings| gatherings.missing());
        let prefetch = self.prefetch.and_for_batches(missing);
        prefetch.want(concurrency, self.running - self.batched, self.ready.unbatched())
    }

    fn has_unused_executor(&self, concurrency: usize) -> bool {
        !self.sleeping.is_empty() || self.executors < concurrency
    }

    pub(crate) fn activate_if_needed(&mut self, runner: &QueueRunner) -> Option<Activation> {
        let needed = self.active < runner.parallelism && (self.may_start() || self.alarm_due().is_some());
        if needed { self.activate_one(runner.concurrency) } else { None }
    }

    /// This executor does not sleep any more.
    fn woken(&mut self, sleeper: &Arc<Notify>) {
        self.active += 1;
        self.ready.gatherings.iter_mut().for_each(|gatherings| gatherings.forget_alarm(sleeper));
    }

    fn activate_one(&mut self, concurrency: usize) -> Option<Activation> {
        let activation = match self.sleeping.pop() {
            Some(sleeper) => {
                self.woken(&sleeper);
                Activation::Wake(sleeper)
            }
            None if self.executors < concurrency => {
                self.executors += 1;
                self.active += 1;
                Activation::Spawn
            }
            None => return None,
        };
        Some(activation)
    }
}
