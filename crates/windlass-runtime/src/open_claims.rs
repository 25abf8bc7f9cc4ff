use crate::{
    batch::Batches,
    epoch::{ClaimScope, Epoch},
    open_claim::OpenClaim,
    round::Round,
};
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_core::{ClaimRef, ClaimedJob, Disposition, JobId, WorkerId};

/// The open claims of one queue: which of their jobs finished, and how, since the last settlement.
///
/// A plain data structure behind the lock of the queue runner. Executors mark jobs, the settler
/// [collects](Self::collect) what is worth a settlement.
#[derive(Debug, Default)]
pub(crate) struct OpenClaims {
    slots: Vec<Option<OpenClaim>>,
    free: Vec<u32>,
    /// Claims with something to settle, or to drop, in the order in which they got it.
    dirty: Vec<u32>,
    /// Finished jobs that no settlement was sent for.
    unsettled: usize,
}

impl OpenClaims {
    /// Adds a claim. The slot that it returns names the claim until all its jobs are finished.
    pub(crate) fn add(&mut self, scope: Arc<ClaimScope>, jobs: &[ClaimedJob]) -> u32 {
        scope.epoch.claim_opened();
        let claim = Some(OpenClaim::new(scope, jobs));
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = claim;
            return slot;
        }
        self.slots.push(claim);
        self.slots.len() as u32 - 1
    }

    /// A job of the claim began. This only tells claims that make progress from stuck ones.
    pub(crate) fn started(&mut self, slot: u32) {
        if let Some(claim) = &mut self.slots[slot as usize] {
            claim.started();
        }
    }

    /// The job at `index` of the claim completed. Whether the whole claim is finished now.
    pub(crate) fn complete(&mut self, slot: u32, index: u32) -> bool {
        self.finish(slot, |claim| claim.complete(index))
    }

    /// The job at `index` of the claim did not simply complete. Whether the whole claim is finished now.
    pub(crate) fn add_exception(
        &mut self,
        slot: u32,
        index: u32,
        position: i64,
        disposition: Disposition,
    ) -> bool {
        self.finish(slot, |claim| claim.add_exception(index, position, disposition))
    }

    fn finish(&mut self, slot: u32, mark: impl FnOnce(&mut OpenClaim)) -> bool {
        let Some(claim) = &mut self.slots[slot as usize] else { return false };
        mark(claim);
        self.unsettled += 1;
        if claim.note_dirty() {
            self.dirty.push(slot);
        }
        claim.is_finished()
    }

    /// Told when what is finished of the claim now is settled, or given up.
    pub(crate) fn settlement(&mut self, slot: u32) -> oneshot::Receiver<()> {
        let (waiter, settled) = oneshot::channel();
        if let Some(claim) = &mut self.slots[slot as usize] {
            claim.wait(waiter);
        }
        settled
    }

    /// The last `count` jobs of the claim will not run here and are not settled either.
    pub(crate) fn forget(&mut self, slot: u32, count: u32) {
        let Some(claim) = &mut self.slots[slot as usize] else { return };
        claim.forget(count);
        if claim.note_dirty() {
            self.dirty.push(slot);
        }
    }

    /// Moves what is worth a settlement into `batches`, until they are full. Whether something was left
    /// for later.
    pub(crate) fn collect(&mut self, round: &Round, batches: &mut Batches) -> bool {
        let mut kept = 0;
        for at in 0..self.dirty.len() {
            let slot = self.dirty[at];
            let Some(claim) = &mut self.slots[slot as usize] else { continue };
            if batches.is_full() || !claim.is_due(round) {
                self.dirty[kept] = slot;
                kept += 1;
                continue;
            }
            self.unsettled -= claim.unsettled();
            claim.take(batches);
            if claim.is_finished() {
                self.slots[slot as usize] = None;
                self.free.push(slot);
            }
        }
        self.dirty.truncate(kept);
        kept > 0
    }

    /// The claims of this epoch that hold some of these jobs, which ascend; with those.
    pub(crate) fn claims_of(&self, epoch: &Arc<Epoch>, jobs: &[JobId]) -> Vec<(Arc<ClaimScope>, Vec<JobId>)> {
        self.slots.iter().flatten().filter_map(|claim| claim.jobs_among(epoch, jobs)).collect()
    }

    /// Those of these claims of this epoch that are not finished, with all their jobs.
    pub(crate) fn unfinished_of(
        &self,
        epoch: &Arc<Epoch>,
        claims: &[ClaimRef],
    ) -> Vec<(Arc<ClaimScope>, Vec<JobId>)> {
        self.slots.iter().flatten().filter_map(|claim| claim.jobs_if(epoch, claims)).collect()
    }

    /// The registration under which the claim was made.
    pub(crate) fn worker_of(&self, slot: u32) -> Option<WorkerId> {
        self.slots[slot as usize].as_ref().map(OpenClaim::worker)
    }

    /// How many jobs of this registration were started and are not finished.
    pub(crate) fn running_of(&self, worker: WorkerId) -> usize {
        let claims = self.slots.iter().flatten().filter(|claim| claim.worker() == worker);
        claims.map(OpenClaim::running).sum()
    }

    /// Whether anything waits to be settled.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// How many finished jobs no settlement was sent for.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch::Batch, made_up, round::Eagerness};
    use std::time::Duration;
    use tokio::time::Instant;
    use windlass_core::{ClaimRef, Completion, JobSet, WorkerId};

    /// One open claim of jobs with these ids, in this start order.
    fn claims_of(ids: &[i64]) -> (OpenClaims, Arc<Epoch>) {
        let epoch = Epoch::new(WorkerId(1), Arc::default());
        let jobs: Vec<_> = ids.iter().copied().map(made_up::job).collect();
        let mut open = OpenClaims::default();
        open.add(made_up::scope(&epoch, ClaimRef(1, 1), 0), &jobs);
        (open, epoch)
    }

    fn finish(open: &mut OpenClaims, indexes: impl IntoIterator<Item = u32>) {
        for index in indexes {
            open.started(0);
            open.complete(0, index);
        }
    }

    fn round(number: u64, eagerness: Eagerness) -> Round {
        let (now, patience) = (Instant::now(), Duration::from_millis(10));
        Round { number, now, eagerness, rate: 100_000.0, patience }
    }

    fn collect(open: &mut OpenClaims, round: &Round) -> Option<Batch> {
        let mut batches = Batches::default();
        open.collect(round, &mut batches);
        batches.into_vec().pop()
    }

    fn only(batch: Option<Batch>) -> Completion {
        let completions = batch.expect("a batch").request.completions;
        assert_eq!(completions.len(), 1);
        completions[0].clone()
    }

    #[test]
    fn a_finished_claim_is_settled_as_a_whole_and_forgotten() {
        let (mut open, _) = claims_of(&[4, 5, 9]);
        finish(&mut open, 0..3);
        assert_eq!(open.unsettled(), 3);
        let batch = collect(&mut open, &round(1, Eagerness::Patient));
        assert_eq!(batch.as_ref().map(|batch| batch.closed_claims), Some(1));
        let completion = only(batch);
        assert_eq!((completion.jobs, completion.count), (JobSet::Rest, 3));
        assert_eq!((open.unsettled(), open.is_dirty(), open.free.len()), (0, false, 1));
    }

    #[test]
    fn ranges_are_runs_of_the_claims_own_ids_whatever_lies_between() {
        let ids: Vec<i64> = (0..200).map(|n| n * 7).collect();
        let (mut open, _) = claims_of(&ids);
        finish(&mut open, (0..3).chain([5]).chain(62..66).chain([199]));
        let completion = only(collect(&mut open, &round(1, Eagerness::Flush)));
        assert_eq!(completion.jobs, JobSet::Ranges(vec![(0, 14), (35, 35), (434, 455), (1393, 1393)]));
        assert_eq!(completion.count, 9);
        finish(&mut open, [3]);
        let completion = only(collect(&mut open, &round(2, Eagerness::Flush)));
        assert_eq!(completion.jobs, JobSet::Ranges(vec![(21, 21)]), "what was settled is not named again");
    }

    #[test]
    fn a_start_order_other_than_that_of_ids_is_kept_apart() {
        let (mut open, _) = claims_of(&[30, 10, 20, 40]);
        finish(&mut open, [0, 2]);
        let completion = only(collect(&mut open, &round(1, Eagerness::Flush)));
        assert_eq!(completion.jobs, JobSet::Ranges(vec![(20, 30)]));
    }

    #[test]
    fn a_claim_that_moves_fast_is_held_back_but_not_for_ever() {
        let (mut open, _) = claims_of(&(0..500).collect::<Vec<_>>());
        finish(&mut open, 0..100);
        let first = round(1, Eagerness::Eager);
        assert!(collect(&mut open, &first).is_none(), "400 jobs at 100,000/s are worth 4 ms");
        let late = Round { number: 2, now: first.now + Duration::from_millis(7), ..first };
        assert_eq!(only(collect(&mut open, &late)).count, 100);
    }

    #[test]
    fn what_runs_already_is_waited_for_one_round_unless_there_is_nothing_else_to_do() {
        let (mut open, _) = claims_of(&[1, 2]);
        open.started(0);
        finish(&mut open, [0]);
        assert!(collect(&mut open, &round(1, Eagerness::Patient)).is_none());
        assert_eq!(only(collect(&mut open, &round(2, Eagerness::Patient))).count, 1);
        open.complete(0, 1);
        let completion = only(collect(&mut open, &round(2, Eagerness::Eager)));
        assert_eq!(completion.jobs, JobSet::Ranges(vec![(2, 2)]), "the store may have lost the first");
    }

    #[test]
    fn a_claim_with_an_exception_of_before_is_not_settled_as_a_whole() {
        let retry = || Disposition::Retry { delay: Duration::ZERO, error: String::new() };
        for settled_before in [true, false] {
            let (mut open, _) = claims_of(&[1, 2, 3]);
            open.started(0);
            open.add_exception(0, 1, 0, retry());
            if settled_before {
                assert_eq!(collect(&mut open, &round(1, Eagerness::Flush)).map(|batch| batch.jobs), Some(1));
            }
            finish(&mut open, [0, 2]);
            let jobs = only(collect(&mut open, &round(2, Eagerness::Flush))).jobs;
            assert_eq!(jobs == JobSet::Rest, !settled_before, "{jobs:?}");
        }
    }

    #[test]
    fn a_claim_with_forgotten_jobs_is_never_settled_as_a_whole() {
        let (mut open, _) = claims_of(&[1, 2, 3]);
        finish(&mut open, [0]);
        open.forget(0, 2);
        let batch = collect(&mut open, &round(1, Eagerness::Patient));
        assert_eq!(only(batch).jobs, JobSet::Ranges(vec![(1, 1)]));
        assert_eq!(open.free.len(), 1);
    }

    #[test]
    fn results_of_a_lost_epoch_are_dropped() {
        let (mut open, epoch) = claims_of(&[1, 2]);
        finish(&mut open, [0]);
        open.started(0);
        open.add_exception(0, 1, 0, Disposition::NoHandler);
        epoch.advance(crate::epoch::Phase::Lost);
        let batch = collect(&mut open, &round(1, Eagerness::Patient)).expect("it closes the claim");
        assert_eq!((batch.jobs, batch.closed_claims, open.unsettled()), (0, 1, 0));
        assert!(batch.request.completions.is_empty() && batch.request.exceptions.is_empty());
    }
}
