//! What borrowers and the lender tell each other.

use super::Ticket;
use crate::{Context, epoch::ClaimScope};
use bytes::Bytes;
use windlass_core::{JobId, Outcome};

/// A job to run.
#[derive(Debug)]
pub struct LentJob {
    /// What its outcome is handed in with.
    pub ticket: Ticket,
    /// The same for all jobs of a batch, which come one after the other in one exchange and are to be run in one call. A job
    /// that is run by itself has its own ticket here.
    pub batch: Ticket,
    /// The job's args: JSON text.
    pub args: Bytes,
    /// What else is known of it, and where its progress, log and checkpoints go.
    pub context: Context,
}

/// What became of a job.
#[derive(Debug)]
pub struct HandIn {
    /// The job's.
    pub ticket: Ticket,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// How much a borrower takes now. A batch is never split: one that begins within it may exceed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// So many jobs at most.
    pub jobs: usize,
    /// No further job when their args have so many bytes together.
    pub bytes: usize,
}

impl Room {
    /// Room for so many jobs, of whatever size.
    #[must_use]
    pub fn jobs(jobs: usize) -> Self {
        Self { jobs, bytes: usize::MAX }
    }
}

/// What else there is to know after an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanged {
    /// What happened to jobs that this borrower has, or had.
    pub news: Vec<News>,
    /// Further jobs wait for a borrower with room.
    pub more: bool,
    /// The worker ended: no job will come any more.
    pub closed: bool,
    /// How many outcomes were refused, because their job was taken away, already handed in, or lent to somebody else.
    pub refused: u32,
}

/// What happens to lent jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The job should stop. What is handed in within the grace that follows counts.
    Interrupt(Ticket, StopReason),
    /// The job is no longer this borrower's: nothing that it hands in counts.
    Evicted(Ticket),
}

/// Why a job should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody [cancelled](windlass_core::JobStore::cancel) it.
    Cancelled,
    /// Its attempt took longer than it may.
    TimedOut,
    /// The worker stops, and its grace period is over.
    WorkerStops,
    /// The store took the job away.
    LeaseLost,
}

impl StopReason {
    pub(super) fn of(scope: &ClaimScope, job: JobId) -> Self {
        match () {
            () if scope.is_cancel_asked(job) => Self::Cancelled,
            () if scope.epoch.is_lost() => Self::LeaseLost,
            () if scope.epoch.interrupted().is_cancelled() => Self::WorkerStops,
            () => Self::TimedOut,
        }
    }
}
