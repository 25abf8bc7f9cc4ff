use crate::epoch::ClaimScope;
use std::sync::Arc;
use windlass_core::ClaimedJob;

/// From so many crashes on a job is suspected of killing its workers.
const CRASHES: u16 = 2;

/// A job on its way to an executor.
#[derive(Debug)]
pub(crate) struct Popped {
    /// Which of the queue's open claims it is of.
    pub(crate) slot: u32,
    /// Its start order within the claim.
    pub(crate) index: u32,
    pub(crate) job: ClaimedJob,
}

/// A job that waits for its batch, or is on its way to an executor with it. While it waits it is not started: no slot and no
/// start of a limit is used for it, and it can be handed back like any other.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) scope: Arc<ClaimScope>,
    pub(crate) popped: Popped,
}

/// Whether the job may be what killed the workers that held it: it runs alone.
pub(crate) fn is_suspect(job: &ClaimedJob) -> bool {
    job.crash_count >= CRASHES
}
