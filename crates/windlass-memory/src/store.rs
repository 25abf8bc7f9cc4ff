use crate::{Clock, Move, claim, control, state::State, wakeup::Requests};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc::UnboundedReceiver, watch};
use windlass_core::{Claim, ClaimRef, JobId, Limits, Result, WorkerId};

/// Jobs in the memory of this process. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
    pub(crate) limits: Limits,
    pub(crate) changed: Arc<watch::Sender<()>>,
    pub(crate) requests: Arc<Requests>,
}

impl MemoryStore {
    /// An empty store with the usual limits.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// An empty store.
    pub fn with_limits(limits: Limits) -> Self {
        let clock = Clock::new();
        let state = Arc::new(Mutex::new(State::new(clock.clone())));
        Self { state, clock, limits, changed: Arc::new(watch::Sender::new(())), requests: Arc::default() }
    }

    /// The store's time, which can be moved.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Tells of every move from now on, in order, so that a test can wait for what happens to a job or look back at it.
    ///
    /// ```
    /// # use windlass_core::{Args, JobState, JobStore, NewJob};
    /// # #[tokio::main]
    /// # async fn main() -> windlass_core::Result<()> {
    /// let store = windlass_memory::MemoryStore::new();
    /// let mut moves = store.moves();
    /// let id = store.enqueue(&[NewJob::new("mail.send", Args::parse("{}")?)]).await?[0];
    /// let moved = moves.recv().await.unwrap();
    /// assert_eq!((moved.job, moved.from, moved.to), (id, None, JobState::Available));
    /// # Ok(()) }
    /// ```
    pub fn moves(&self) -> UnboundedReceiver<Move> {
        self.lock().watchers.add()
    }

    /// Makes a job look as if it had failed so many times, and been held by so many workers that died; with 2 of
    /// these workers run it alone. Whether there is such a job.
    pub fn set_counts(&self, job: JobId, attempts: u16, crashes: u16) -> bool {
        let mut state = self.lock();
        let known = state.jobs.get_mut(&job);
        known.map(|job| (job.attempt, job.crash_count) = (attempts, crashes)).is_some()
    }

    /// Claims these very jobs, whatever their place in line. They are of one queue and one priority.
    ///
    /// # Errors
    /// `not_found` when a claim by this worker could not have one of them now; a lost lease as usual.
    pub fn claim_these(&self, worker: WorkerId, jobs: &[JobId]) -> Result<Claim> {
        claim::claim_these(&mut self.lock(), worker, jobs)
    }

    /// The jobs of a queue that a claim by this worker would hand out now if it had no bounds, in their order.
    ///
    /// # Errors
    /// A lost lease.
    pub fn claimable(&self, worker: WorkerId, queue: &str) -> Result<Vec<JobId>> {
        let state = self.lock();
        state.fence(worker)?;
        Ok(claim::claimable(&state, worker, queue))
    }

    /// Forgets the claim that holds this job, as a crash does of a server that commits claims asynchronously: its jobs are
    /// available again, and what its worker says of them is refused. Which one it was, if any.
    pub fn forget_claim(&self, job: JobId) -> Option<ClaimRef> {
        self.lock().forget_claim(job)
    }

    /// Asks for the cancellation of a running job, and tells nobody: its worker learns of it by its next heartbeat, as when
    /// a hint was lost.
    pub fn request_cancel_silently(&self, job: JobId) {
        control::cancel(&mut self.lock(), job);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a defect; what is stored can still be looked at.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is stored. Gives other tasks a turn from time to time, as a store that waits for something does.
    pub(crate) async fn state(&self) -> MutexGuard<'_, State> {
        tokio::task::coop::consume_budget().await;
        self.lock()
    }

    /// Changes what is stored, and wakes those who wait for work.
    pub(crate) async fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let done = act(&mut *self.state().await);
        self.changed.send_replace(());
        done
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("jobs", &self.lock().jobs.len()).finish_non_exhaustive()
    }
}
