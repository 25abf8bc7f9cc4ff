use crate::{JobId, WorkerId};
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;

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
}

/// Names one claim. Opaque to the engine, which hands it back when it settles; the token makes a claim
/// that a database crash forgot different from the one that took its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The lane: one queue at one priority.
    pub lane: i32,
    /// The claim's number in its lane.
    pub seq: i64,
    /// A random number chosen by the store.
    pub token: i32,
}

/// A batch of jobs of one lane, leased to one worker until its lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which claim this is.
    pub reference: ClaimRef,
    /// The queue that the jobs are of.
    pub queue: Arc<str>,
    /// Their priority.
    pub priority: i16,
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
}
