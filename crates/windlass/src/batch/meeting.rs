//! Where the jobs of a batch meet, each behind its own layers.

use super::BatchJob;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};
use tokio::sync::oneshot;
use windlass_core::{ClaimRef, JobId, Outcome, WorkerId};
use windlass_runtime::Context;

/// An attempt of a job: another one may be under way, under another registration.
type Attempt = (WorkerId, ClaimRef, JobId);

fn attempt(context: &Context) -> Attempt {
    let lease = context.lease();
    (lease.worker, lease.claim, lease.job)
}

/// A job at its meeting, and who waits for what becomes of it.
pub(super) type Joined<J> = (BatchJob<J>, oneshot::Sender<Outcome>);

/// The meetings of one handler.
pub(super) struct Meetings<J> {
    expected: Mutex<HashMap<Attempt, Arc<Meeting<J>>>>,
}

/// One batch, as far as its jobs are there.
pub(super) struct Meeting<J> {
    state: Mutex<State<J>>,
}

struct State<J> {
    joined: Vec<Joined<J>>,
    /// Jobs that may still come.
    expected: usize,
    /// Who waits for them.
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J> Default for Meetings<J> {
    fn default() -> Self {
        Self { expected: Mutex::default() }
    }
}

impl<J> Meetings<J> {
    /// A meeting of these jobs.
    pub(super) fn of(&self, jobs: &[Context]) -> Arc<Meeting<J>> {
        let state = State { joined: Vec::with_capacity(jobs.len()), expected: jobs.len(), waker: None };
        let meeting = Arc::new(Meeting { state: Mutex::new(state) });
        lock(&self.expected).extend(jobs.iter().map(|job| (attempt(job), Arc::clone(&meeting))));
        meeting
    }

    /// A job is at its handler. What becomes of it will be told; or it is given back when it has no meeting.
    pub(super) fn join(&self, job: BatchJob<J>) -> Result<oneshot::Receiver<Outcome>, BatchJob<J>> {
        let meeting = lock(&self.expected).remove(&attempt(&job.ctx));
        let Some(meeting) = meeting else { return Err(job) };
        let (sender, receiver) = oneshot::channel();
        meeting.no_more_expected(Some((job, sender)));
        Ok(receiver)
    }

    /// The job will not come any more, if it did not.
    pub(super) fn leave(&self, job: &Context) {
        let meeting = lock(&self.expected).remove(&attempt(job));
        meeting.into_iter().for_each(|meeting| meeting.no_more_expected(None));
    }
}

impl<J> Meeting<J> {
    fn no_more_expected(&self, joined: Option<Joined<J>>) {
        let mut state = lock(&self.state);
        state.expected -= 1;
        state.joined.extend(joined);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Those that are there, when all are or `now`; they leave. `waker` is told when another one comes.
    pub(super) fn begin(&self, now: bool, waker: &Waker) -> Option<Vec<Joined<J>>> {
        let mut state = lock(&self.state);
        let begins = !state.joined.is_empty() && (now || state.expected == 0);
        state.waker = Some(waker.clone());
        begins.then(|| std::mem::take(&mut state.joined))
    }

    /// Whether some are there that wait for others.
    pub(super) fn waits(&self) -> bool {
        !lock(&self.state).joined.is_empty()
    }
}
