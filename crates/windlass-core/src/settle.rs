use crate::{Args, ClaimRef, JobId, WorkerId};
use jiff::Timestamp;
use std::time::Duration;

/// What became of jobs that a worker holds: one call settles a whole batch, in one transaction.
#[derive(Clone, Debug, Default)]
pub struct SettleRequest {
    /// Who settles; refused with a lost lease when it is no longer live.
    pub worker: WorkerId,
    /// Jobs that completed, by claim: the hot path, one tiny row each.
    pub completions: Vec<Completion>,
    /// Jobs that are settled one by one.
    pub exceptions: Vec<Exception>,
}

/// Completed jobs of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The claim.
    pub claim: ClaimRef,
    /// Which of its jobs.
    pub jobs: JobSet,
    /// How many jobs these are.
    pub count: u32,
}

/// Some jobs of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSet {
    /// Every job of the claim that no other settlement names. The engine says it where one request has all jobs of the
    /// claim: after a failover the store may have lost what was settled before, which would count as completed.
    Rest,
    /// The claim's jobs with ids in these inclusive ranges. Jobs of *other* claims may lie between.
    Ranges(Vec<(i64, i64)>),
}

/// A job that is settled by itself: it did not simply complete, returned a result, or is
/// [tracked](crate::Attributes::tracked).
#[derive(Clone, Debug, PartialEq)]
pub struct Exception {
    /// The claim.
    pub claim: ClaimRef,
    /// The job.
    pub job: JobId,
    /// The job's [`ClaimedJob::position`](crate::ClaimedJob::position).
    pub position: i64,
    /// What happens to it.
    pub disposition: Disposition,
}

/// What happens to a job at the end of an attempt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Disposition {
    /// Done.
    Complete {
        /// What the handler returned, if anything; kept as long as the job.
        result: Option<Args>,
    },
    /// Failed; the attempt is used up, the next one starts after `delay`. The engine sends
    /// [`Disposition::Discard`] instead when no attempt is left.
    Retry {
        /// How long until the next attempt, by the store's clock.
        delay: Duration,
        /// What went wrong.
        error: String,
    },
    /// Runs again after this delay; the attempt is not used up.
    Snooze {
        /// How long to wait, by the store's clock.
        delay: Duration,
    },
    /// The worker cannot read its args: retryable after this delay; the attempt is not used up. The error is kept
    /// with the attempt that could not begin, the same text once.
    Undecryptable {
        /// How long to wait, by the store's clock.
        delay: Duration,
        /// What is missing.
        error: String,
    },
    /// The handler cancelled it.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Dead: out of attempts, or the handler discarded it.
    Discard {
        /// What went wrong.
        error: String,
        /// Whether the attempt failed (counted, its error kept) or the handler decided.
        failed: bool,
    },
    /// This worker has no handler for the kind: the job waits for a worker that knows it.
    NoHandler,
    /// Handed back unstarted or interrupted by shutdown: available again at once, no attempt used.
    Return,
}

impl Disposition {
    /// The reason of a job that was cancelled through [`JobStore::cancel`](crate::JobStore::cancel).
    pub const BY_REQUEST: &'static str = "cancelled by request";

    /// The reason of a job that was discarded because so many workers died while they held it.
    pub fn crash_loop(workers: u16) -> String {
        format!("crash_loop: {workers} workers died while they held this job")
    }

    /// What becomes of a job that was not started by this time.
    pub fn expired(at: Timestamp) -> Self {
        Self::Cancel { reason: format!("expired: it was not started by {at}") }
    }

    /// Whether the job would be available again, now or later. One that is to be
    /// [cancelled](crate::JobStore::cancel) ends as cancelled instead.
    pub fn brings_back(&self) -> bool {
        use Disposition::{NoHandler, Retry, Return, Snooze, Undecryptable};
        matches!(self, Retry { .. } | Snooze { .. } | Undecryptable { .. } | NoHandler | Return)
    }
}

/// Whether each entry of a [`SettleRequest`] was accepted, in order: completions first, then exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleReply {
    /// One entry per completion.
    pub completions: Vec<Settled>,
    /// One entry per exception.
    pub exceptions: Vec<Settled>,
}

/// Whether a settlement was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Written by this call.
    Accepted,
    /// Was settled before: a repeated call after a lost reply, or `complete_in` a user's transaction.
    /// Nothing was written.
    Already,
    /// The claim is unknown or belongs to somebody else: the jobs are no longer this worker's.
    Refused,
}
