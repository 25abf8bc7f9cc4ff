//! What an executor and its queue runner tell each other between two jobs.

use crate::{
    disposition::Settlement,
    popped::{Gathered, Popped},
    signals::Signals,
};
use std::sync::Arc;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// A finished job on its way from its executor to its open claim.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: u32,
    pub(crate) index: u32,
    pub(crate) position: i64,
    pub(crate) settlement: Settlement,
    /// Whether its executor was counted out of the active ones while the job waited.
    pub(crate) waited: bool,
}

/// The answer of `QueueRunner::turn`: what the executor does next, and whom it has to tell.
pub(crate) struct Turn {
    pub(crate) step: Step,
    /// Another executor that the caller wakes or starts.
    pub(crate) activation: Option<Activation>,
    /// There is demand, and the claimer asked to be told.
    pub(crate) tell_claimer: bool,
    /// The limits of the queue hold a job back, or a job ended for which others wait.
    pub(crate) tell_sharer: bool,
    /// `Some(true)` when a claim was finished as a whole.
    pub(crate) tell_settler: Option<bool>,
    /// The queue runner is closed, and this was its last running job.
    pub(crate) became_idle: bool,
}

/// What follows from handing in the results of a batch: the answer of `QueueRunner::finish_batch`.
pub(crate) struct HandedIn {
    /// Whether a claim was finished as a whole.
    pub(crate) whole_claim: bool,
    pub(crate) tell_sharer: bool,
    pub(crate) became_idle: bool,
    /// Where executors wait for settlements: those of the batch. The executor waits for all of them, and calls
    /// `QueueRunner::resumes` then; it does not count as active meanwhile.
    pub(crate) settled: Vec<oneshot::Receiver<()>>,
}

impl HandedIn {
    /// Tells those whom it concerns.
    pub(crate) fn tell(&self, signals: &Signals) {
        signals.finished(self.whole_claim);
        if self.tell_sharer {
            signals.wake_sharer();
        }
        if self.became_idle {
            signals.became_idle();
        }
    }
}

/// What follows from handing in the results of lent jobs.
pub(crate) struct Freed {
    pub(crate) handed_in: HandedIn,
    /// An executor that the caller wakes or starts: there is room for further jobs.
    pub(crate) activation: Option<Activation>,
    /// There is demand, and the claimer asked to be told.
    pub(crate) tell_claimer: bool,
}

/// What an executor does next.
pub(crate) enum Step {
    Run(Popped),
    /// Runs these jobs at once.
    RunBatch(Vec<Gathered>),
    /// Waits for the settlement of what it handed in, and calls `QueueRunner::resumes` then. It does not count
    /// as active meanwhile.
    Settle(oneshot::Receiver<()>),
    /// Sleeps until it is woken: there is no job for it.
    Sleep,
    /// Sleeps until it is woken, or a batch is due then; it calls `QueueRunner::wakes_by_itself` in that case.
    SleepUntil(Instant),
    /// Ends: the queue runner is closed.
    Exit,
}

/// How an executor becomes active.
pub(crate) enum Activation {
    /// One that sleeps is woken.
    Wake(Arc<Notify>),
    /// One that does not exist yet is started.
    Spawn,
}
