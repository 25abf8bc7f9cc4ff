use crate::epoch::ClaimScope;
use std::{collections::VecDeque, sync::Arc};
use windlass_core::ClaimedJob;

/// Claimed jobs of one queue that wait for a free executor: best priority first, then as claimed.
///
/// Whole claims are queued, so that a job costs nothing until it is popped.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    claims: VecDeque<ReadyClaim>,
    jobs: usize,
}

/// The unstarted jobs of one claim.
#[derive(Debug)]
pub(crate) struct ReadyClaim {
    pub(crate) scope: Arc<ClaimScope>,
    /// Which of the queue's open claims it is.
    pub(crate) slot: u32,
    /// The start order of the next job within the claim.
    pub(crate) next: u32,
    pub(crate) jobs: std::vec::IntoIter<ClaimedJob>,
}

/// A job on its way to an executor.
#[derive(Debug)]
pub(crate) struct Popped {
    pub(crate) slot: u32,
    pub(crate) index: u32,
    pub(crate) job: ClaimedJob,
}

impl Ready {
    pub(crate) fn len(&self) -> usize {
        self.jobs
    }

    /// Queues a claim behind those of its priority and before those of worse ones.
    pub(crate) fn push(&mut self, claim: ReadyClaim) {
        self.jobs += claim.jobs.len();
        let better = |ready: &ReadyClaim| ready.scope.priority <= claim.scope.priority;
        let at = self.claims.iter().rposition(better).map_or(0, |at| at + 1);
        self.claims.insert(at, claim);
    }

    /// Takes the next job. `scope` is what its executor remembers of its job before: replaced when the
    /// job is of another claim, so that a run of jobs of one claim touches no shared counter here.
    pub(crate) fn pop(&mut self, scope: &mut Option<Arc<ClaimScope>>) -> Option<Popped> {
        let claim = self.claims.front_mut()?;
        let job = claim.jobs.next()?;
        if !scope.as_ref().is_some_and(|known| Arc::ptr_eq(known, &claim.scope)) {
            *scope = Some(Arc::clone(&claim.scope));
        }
        let popped = Popped { slot: claim.slot, index: claim.next, job };
        claim.next += 1;
        self.jobs -= 1;
        if claim.jobs.len() == 0 {
            self.claims.pop_front();
        }
        Some(popped)
    }

    /// Takes out those claims.
    pub(crate) fn remove(&mut self, goes: impl Fn(&ClaimScope) -> bool) -> Vec<ReadyClaim> {
        let all = std::mem::take(&mut self.claims);
        let goes = |claim: &ReadyClaim| goes(&claim.scope);
        let (gone, kept) = all.into_iter().partition::<Vec<_>, _>(goes);
        self.jobs = kept.iter().map(|claim| claim.jobs.len()).sum();
        self.claims = kept.into();
        gone
    }
}
