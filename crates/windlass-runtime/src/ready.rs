use crate::{
    epoch::ClaimScope,
    gathering::{BatchedKinds, Gatherings},
    popped::{Gathered, Popped, is_suspect},
};
use std::{collections::VecDeque, sync::Arc};
use tokio::time::Instant;
use windlass_core::ClaimedJob;

/// Claimed jobs of one queue that wait for a free executor: best priority first, then as claimed.
///
/// Whole claims are queued, so that a job costs nothing until it is popped. Only jobs that are batched leave their claim
/// before: as soon as one is the next, it joins its batch.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    claims: VecDeque<ReadyClaim>,
    jobs: usize,
    /// In a worker that has batched kinds.
    pub(crate) gatherings: Option<Box<Gatherings>>,
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

/// What was taken out unstarted.
#[derive(Debug, Default)]
pub(crate) struct Unstarted {
    pub(crate) claims: Vec<ReadyClaim>,
    pub(crate) gathered: Vec<Gathered>,
}

impl Ready {
    pub(crate) fn new(kinds: BatchedKinds) -> Self {
        Self { gatherings: kinds.map(|kinds| Box::new(Gatherings::new(kinds))), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs + self.gatherings.as_ref().map_or(0, |gatherings| gatherings.len())
    }

    /// Those that wait for nothing but an executor.
    pub(crate) fn startable(&self) -> usize {
        let batches = self.gatherings.as_ref().filter(|gatherings| gatherings.len() > 0);
        self.jobs + batches.map_or(0, |gatherings| gatherings.startable(Instant::now()))
    }

    /// What those cost, in the order in which they are taken.
    pub(crate) fn costs(&self) -> impl Iterator<Item = u32> {
        let batches = self.gatherings.iter().flat_map(|gatherings| gatherings.costs(Instant::now()));
        let claims = self.claims.iter().flat_map(|claim| claim.jobs.as_slice()).map(ClaimedJob::cost);
        batches.chain(claims)
    }

    /// Those that wait for no batch.
    pub(crate) fn unbatched(&self) -> usize {
        self.jobs
    }

    /// Queues a claim behind those of its priority and before those of worse ones.
    pub(crate) fn push(&mut self, claim: ReadyClaim) {
        self.jobs += claim.jobs.len();
        let better = |ready: &ReadyClaim| ready.scope.priority <= claim.scope.priority;
        let at = self.claims.iter().rposition(better).map_or(0, |at| at + 1);
        self.claims.insert(at, claim);
        self.gather();
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

    /// Takes the next job, which is not one for a batch.
    pub(crate) fn pop_one(&mut self, scope: &mut Option<Arc<ClaimScope>>) -> Option<Popped> {
        let popped = self.pop(scope);
        if let Some(gatherings) = &mut self.gatherings {
            gatherings.note_other();
            self.gather();
        }
        popped
    }

    /// The oldest batch that is full or has waited long enough: its place, and its jobs.
    pub(crate) fn due_batch(&self) -> Option<(usize, &[Gathered])> {
        let gatherings = self.gatherings.as_ref().filter(|gatherings| gatherings.len() > 0)?;
        gatherings.due(Instant::now())
    }

    /// Takes the batch at that place, with at most so many of its jobs.
    pub(crate) fn pop_batch(&mut self, at: usize, most: usize) -> Vec<Gathered> {
        let batch = self.gatherings.as_mut().map_or_else(Vec::new, |gatherings| gatherings.take(at, most));
        self.gather();
        batch
    }

    /// The next job that is not one for a batch.
    pub(crate) fn next_one(&self) -> Option<&ClaimedJob> {
        self.next().map(|(job, _)| job)
    }

    /// Moves jobs to their batches until the next one is not to be batched, or its batch is full.
    fn gather(&mut self) {
        let Some(mut gatherings) = self.gatherings.take() else { return };
        let mut scope = None;
        while self
            .next()
            .is_some_and(|(next, claim)| !is_suspect(next) && gatherings.takes(&next.kind, &claim.epoch))
        {
            let Some(popped) = self.pop(&mut scope) else { break };
            let Some(scope) = &scope else { break };
            gatherings.add(Arc::clone(scope), popped);
        }
        self.gatherings = Some(gatherings);
    }

    fn next(&self) -> Option<(&ClaimedJob, &ClaimScope)> {
        let claim = self.claims.front()?;
        Some((claim.jobs.as_slice().first()?, &claim.scope))
    }

    /// Takes out those claims.
    pub(crate) fn remove(&mut self, goes: impl Fn(&ClaimScope) -> bool) -> Unstarted {
        let all = std::mem::take(&mut self.claims);
        let (claims, kept) = all.into_iter().partition::<Vec<_>, _>(|claim| goes(&claim.scope));
        self.jobs = kept.iter().map(|claim| claim.jobs.len()).sum();
        self.claims = kept.into();
        let gathered = self.gatherings.as_mut().map_or_else(Vec::new, |gatherings| gatherings.remove(goes));
        self.gather();
        Unstarted { claims, gathered }
    }
}
