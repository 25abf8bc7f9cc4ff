use crate::{epoch::ClaimScope, overtaking::Keys};
use std::sync::Arc;
use windlass_core::ClaimedJob;

/// The unstarted jobs of one claim.
#[derive(Debug)]
pub(crate) struct ReadyClaim {
    pub(crate) scope: Arc<ClaimScope>,
    /// Which of the queue's open claims it is.
    pub(crate) slot: u32,
    /// The start order of the next job within the claim.
    pub(crate) next: u32,
    pub(crate) jobs: std::vec::IntoIter<ClaimedJob>,
    /// Set when it is queued, where its jobs have keys.
    pub(crate) keys: Option<Keys>,
}

impl ReadyClaim {
    pub(crate) fn new(scope: Arc<ClaimScope>, slot: u32, jobs: Vec<ClaimedJob>) -> Self {
        Self { scope, slot, next: 0, jobs: jobs.into_iter(), keys: None }
    }

    /// Its first jobs, and the others.
    pub(crate) fn split(self, first: usize) -> (Self, Self) {
        let Self { scope, slot, next, jobs, .. } = self;
        let mut jobs: Vec<_> = jobs.collect();
        let others =
            Self { next: next + first as u32, ..Self::new(Arc::clone(&scope), slot, jobs.split_off(first)) };
        (Self { next, ..Self::new(scope, slot, jobs) }, others)
    }
}
