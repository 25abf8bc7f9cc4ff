use crate::{
    QueueConfig, Settling,
    batch::Batches,
    epoch::{ClaimScope, Epoch},
    estimate::{Prefetch, Rate, RoundTrip},
    gathering::BatchedKinds,
    queue_state::{HandBack, State},
    ready::Unstarted,
    ready_claim::ReadyClaim,
    round::Round,
    stats::QueueCounters,
    sync::{Mutex, MutexGuard},
    turn::{Activation, Done, Freed, HandedIn, Turn},
};
use std::sync::{Arc, PoisonError};
use tokio::{sync::Notify, time::Instant};
use windlass_core::{Claim, JobId};

/// One queue of the worker: its ready jobs, its executors and its open claims, behind one short lock.
///
/// Executors are tasks: each is started when it is first needed, and kept. One that finds no job sleeps.
/// Adding jobs wakes one executor; each executor that leaves more ready jobs behind wakes another, but
/// only while fewer are active than there are threads to poll them. Jobs that never wait are thus run by
/// that many executors alone, and an executor whose job waits makes room for the next.
#[derive(Debug)]
pub(crate) struct QueueRunner {
    queue: Arc<str>,
    settling: Settling,
    state: Mutex<State>,
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

impl QueueRunner {
    pub(crate) fn new(
        queue: &QueueConfig,
        settling: Settling,
        parallelism: usize,
        batched: BatchedKinds,
    ) -> Self {
        let state = Mutex::new(State::new(queue.concurrency, parallelism, batched));
        Self { queue: queue.queue.as_str().into(), settling, state }
    }

    pub(crate) fn queue(&self) -> &Arc<str> {
        &self.queue
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
        let tell_sharer = std::mem::take(&mut state.tell_sharer) || state.batch_waits_for_limits();
        let activation = state.activate_if_needed();
        let tell_claimer = state.tell_claimer();
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

    /// Foreign code hands in the results of jobs that no executor waits for.
    pub(crate) fn finish_lent(&self, jobs: Vec<Done>) -> Freed {
        let mut state = self.lock();
        let handed_in = state.finish_all(jobs);
        let activation = state.activate_if_needed();
        let tell_claimer = state.tell_claimer();
        Freed { handed_in, activation, tell_claimer }
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
        state.activate_if_needed()
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
        state.activate_if_needed()
    }

    /// Adds a claim that was asked for at this time. Its jobs are dropped when the epoch was lost meanwhile.
    pub(crate) fn deliver(
        &self,
        epoch: &Arc<Epoch>,
        mut claim: Claim,
        asked_at: Instant,
        closed: HandBack,
    ) -> Option<Activation> {
        let mut state = self.lock();
        if epoch.is_lost() {
            return None;
        }
        state.counters.claimed += claim.jobs.len() as u64;
        let (epoch, queue) = (Arc::clone(epoch), Arc::clone(&self.queue));
        let scope = ClaimScope::new(epoch, claim.reference, queue, claim.priority, asked_at);
        let scope = Arc::new(scope.handed_out(claim.claimed_at, claim.jobs.len()));
        let quiet = state.ready.quiet_first(claim.priority, &mut claim.jobs);
        let slot = state.open_claims.add(Arc::clone(&scope), &claim.jobs);
        let ready = ReadyClaim::new(scope, slot, claim.jobs);
        if state.closed {
            state.hand_back(Unstarted { claims: vec![ready], gathered: Vec::new() }, closed);
            return None;
        }
        state.ready.push(ready, quiet);
        state.activate_if_needed()
    }

    /// How many jobs to claim now; 0 when that is not worth a call.
    pub(crate) fn want(&self, prefetch: Prefetch, rate: Rate, trip: RoundTrip) -> usize {
        let mut state = self.lock();
        let finished = state.counters.finished;
        state.prefetch = state.ahead.admits(prefetch, trip, finished);
        state.rate = rate.per_second();
        state.watched = false;
        state.want()
    }

    /// Whether there is demand; if not, the claimer will be told when there is.
    pub(crate) fn watch(&self) -> bool {
        let mut state = self.lock();
        state.watched = state.want() == 0;
        !state.watched
    }

    /// Activates executors although all threads seem busy: when no job finished since the last call, handlers may
    /// block their threads. Activates twice as many each time.
    pub(crate) fn unstick(&self) -> Vec<Activation> {
        let mut state = self.lock();
        let finished = state.counters.finished;
        if !state.has_unused_executor() || !state.may_start() {
            return Vec::new();
        }
        if state.stuck.0 != finished {
            state.stuck = (finished, 0);
            return Vec::new();
        }
        let count = (state.stuck.1 * 2).max(1).min(state.ready.len());
        state.stuck.1 = count;
        (0..count).map_while(|_| state.activate_one()).collect()
    }

    /// Whether jobs wait although there are executors for them.
    pub(crate) fn may_be_stuck(&self) -> bool {
        let state = self.lock();
        state.may_start() && state.has_unused_executor()
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
