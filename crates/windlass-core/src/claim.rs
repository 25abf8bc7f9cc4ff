use crate::{Attributes, JobId, WorkerId};
use bytes::Bytes;
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// What a worker wants: at most `limit` jobs of each queue, best priority first.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims; refused with a lost lease when it is no longer live.
    pub worker: WorkerId,
    /// The demand of each queue. A limit of 0 asks for nothing.
    pub queues: Vec<QueueDemand>,
}

/// How many jobs of one queue a worker wants.
#[derive(Clone, Debug)]
pub struct QueueDemand {
    /// The queue's name.
    pub queue: Arc<str>,
    /// The most jobs to hand out.
    pub limit: u32,
    /// The most bytes of args to hand out; the first job comes whatever its size.
    pub max_bytes: u64,
}

impl QueueDemand {
    /// The usual [`max_bytes`](Self::max_bytes): 32 MiB.
    pub const DEFAULT_MAX_BYTES: u64 = 32 * 1024 * 1024;

    /// At most `limit` jobs of a queue, with the usual bound on their size.
    pub fn new(queue: impl Into<Arc<str>>, limit: u32) -> Self {
        Self { queue: queue.into(), limit, max_bytes: Self::DEFAULT_MAX_BYTES }
    }
}

/// What a claim call found.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The jobs, by lane.
    pub claims: Vec<Claim>,
    /// There may be more than was handed out: somebody else was claiming from one of the queues just now, or
    /// [`QueueDemand::max_bytes`] were reached. Ask again soon. An empty answer that is not contended means that nothing is available.
    pub contended: bool,
    /// Somebody else has had them for longer than claims do, as who changes a job there in a transaction that stays open: to ask again soon is in vain.
    pub blocked: bool,
    /// Queues with [limits](crate::QueueLimits) of which nothing was handed out because the worker has no
    /// [share](crate::JobStore::share) of them.
    pub limited: Vec<Arc<str>>,
    /// How long until the [rate](crate::KeyLimit::rate) of a key, of which this call handed out all that it may, allows more: the earliest. Then
    /// [`promote`](crate::JobStore::promote) tells those who wait. `None`: no job that was looked at waits for a time.
    pub next_due: Option<Duration>,
}

/// Names one claim, in two numbers that only its store can read. The engine hands it back when it settles.
///
/// It must differ from the name of a claim that a crash of the store forgot: the stores put a random number in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimRef(pub u64, pub u64);

/// A batch of jobs of one lane, leased to one worker until its lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which claim this is.
    pub reference: ClaimRef,
    /// The queue that the jobs are of.
    pub queue: Arc<str>,
    /// Their priority.
    pub priority: i16,
    /// When they were handed out, by the store's clock; `None`: not known.
    pub claimed_at: Option<Timestamp>,
    /// The jobs, in the order they should start. Never empty.
    pub jobs: Vec<ClaimedJob>,
}

/// Proof that a worker holds one job: what it needs to settle that job by itself, inside a user's
/// transaction for example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// Who holds it: the fencing token.
    pub worker: WorkerId,
    /// Under which claim.
    pub claim: ClaimRef,
    /// Which job.
    pub job: JobId,
    /// The job's [`ClaimedJob::position`].
    pub position: i64,
}

/// One job as a handler gets it.
#[derive(Clone, Debug)]
pub struct ClaimedJob {
    /// The job's identity.
    pub id: JobId,
    /// Where the store finds the job's row again (PostgreSQL: its transaction id). Opaque; hand it back.
    pub position: i64,
    /// What to do; shared by the jobs of a batch.
    pub kind: Arc<str>,
    /// With what: JSON text, a slice of the batch's one buffer.
    pub args: Bytes,
    /// Which attempt this is, from 1.
    pub attempt: u16,
    /// How many attempts the job has in all.
    pub max_attempts: u16,
    /// How many workers died while they held this job.
    pub crash_count: u16,
    /// When the job was enqueued, by the store's clock.
    pub enqueued_at: Timestamp,
    /// Whether it was available from its enqueue on, as far as the store knows: not scheduled, not tried before, and not put back.
    pub never_put_off: bool,
    /// What only some jobs have.
    pub attributes: Option<Box<Attributes>>,
    /// How long the job may still wait to be started, counted from when the claim was asked for: then it is
    /// [expired](Attributes::expires_at). By the store's clock; `None` when it does not expire.
    pub expires_in: Option<Duration>,
}

impl ClaimedJob {
    /// What a start of it takes of its queue's rate.
    pub fn cost(&self) -> u32 {
        self.attributes.as_ref().and_then(|attributes| attributes.cost).unwrap_or(1)
    }
}
