//! What an executor and its queue runner tell each other between two jobs.

use crate::{disposition::Settlement, ready::Popped};
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};

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

/// What an executor does next.
pub(crate) enum Step {
    Run(Popped),
    /// Waits for the settlement of what it handed in, and calls `QueueRunner::resumes` then. It does not count
    /// as active meanwhile.
    Settle(oneshot::Receiver<()>),
    /// Sleeps until it is woken: there is no job for it.
    Sleep,
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
