use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use windlass_core::{JobId, JobLease, JobState};

/// A job changed its state, or its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Move {
    /// Which job.
    pub job: JobId,
    /// Its state before; `None` when it was enqueued with this move.
    pub from: Option<JobState>,
    /// Its state now.
    pub to: JobState,
    /// The lease that began or ended.
    pub lease: Option<JobLease>,
}

/// Who is told of every move.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Vec<UnboundedSender<Move>>);

impl Watchers {
    pub(crate) fn add(&mut self) -> UnboundedReceiver<Move> {
        let (sender, receiver) = unbounded_channel();
        self.0.push(sender);
        receiver
    }

    pub(crate) fn tell(&mut self, moved: Move) {
        self.0.retain(|watcher| watcher.send(moved).is_ok());
    }
}
