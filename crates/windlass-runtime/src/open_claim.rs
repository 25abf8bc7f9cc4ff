use crate::{
    batch::Batches,
    epoch::{ClaimScope, Epoch},
    round::{Eagerness, Round},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};
use windlass_core::{ClaimRef, ClaimedJob, Completion, Disposition, Exception, JobId, JobSet, WorkerId};

/// So many bytes of results are settled without waiting for the rest of their claim.
const MANY_BYTES: usize = 1 << 20;

/// One claim until all its jobs are finished and settled.
#[derive(Debug)]
pub(crate) struct OpenClaim {
    scope: Arc<ClaimScope>,
    /// The ids of its jobs, ascending. A job's place in here is its rank.
    ids: Box<[i64]>,
    /// Start order to rank; `None` when they are the same, as they are in a claim of a log.
    ranks: Option<Box<[u32]>>,
    /// By rank, one bit each: completed, and no settlement sent for it.
    completed: Box<[u64]>,
    completed_count: u32,
    /// Finished in another way, and no settlement sent for it.
    exceptions: Vec<Exception>,
    /// Of the results among these.
    bytes: usize,
    /// Executors that wait for the settlement of what is finished.
    waiters: Vec<oneshot::Sender<()>>,
    unstarted: u32,
    unfinished: u32,
    dirty: Dirty,
}

/// Since when a claim has something to settle.
#[derive(Clone, Copy, Debug)]
enum Dirty {
    No,
    /// Since after the last round.
    New,
    Since(u64, Instant),
}

impl OpenClaim {
    pub(crate) fn new(scope: Arc<ClaimScope>, jobs: &[ClaimedJob]) -> Self {
        let mut ids: Box<[i64]> = jobs.iter().map(|job| job.id.0).collect();
        let ranks = (!ids.is_sorted()).then(|| {
            ids.sort_unstable();
            let rank = |job: &ClaimedJob| ids.partition_point(|id| *id < job.id.0) as u32;
            jobs.iter().map(rank).collect()
        });
        let count = jobs.len() as u32;
        Self {
            scope,
            completed: vec![0; jobs.len().div_ceil(64)].into(),
            ids,
            ranks,
            completed_count: 0,
            exceptions: Vec::new(),
            bytes: 0,
            waiters: Vec::new(),
            unstarted: count,
            unfinished: count,
            dirty: Dirty::No,
        }
    }

    fn rank(&self, index: u32) -> usize {
        self.ranks.as_ref().map_or(index, |ranks| ranks[index as usize]) as usize
    }

    pub(crate) fn started(&mut self) {
        self.unstarted -= 1;
    }

    pub(crate) fn complete(&mut self, index: u32) {
        let rank = self.rank(index);
        self.completed[rank / 64] |= 1 << (rank % 64);
        self.completed_count += 1;
        self.unfinished -= 1;
    }

    pub(crate) fn add_exception(&mut self, index: u32, position: i64, disposition: Disposition) {
        let job = JobId(self.ids[self.rank(index)]);
        if let Disposition::Complete { result: Some(result) } = &disposition {
            self.bytes += result.len();
        }
        self.exceptions.push(Exception { claim: self.scope.reference, job, position, disposition });
        self.unfinished -= 1;
    }

    /// Whoever holds the other end is told when what is finished now is settled, or given up.
    pub(crate) fn wait(&mut self, waiter: oneshot::Sender<()>) {
        self.waiters.push(waiter);
    }

    pub(crate) fn forget(&mut self, count: u32) {
        self.unstarted -= count;
        self.unfinished -= count;
    }

    /// Notes that there is something to settle. Whether there was nothing before.
    pub(crate) fn note_dirty(&mut self) -> bool {
        let was_clean = matches!(self.dirty, Dirty::No);
        if was_clean {
            self.dirty = Dirty::New;
        }
        was_clean
    }

    /// Those of `jobs`, which ascend, that are of this claim, when it is one of this epoch.
    pub(crate) fn jobs_among(
        &self,
        epoch: &Arc<Epoch>,
        jobs: &[JobId],
    ) -> Option<(Arc<ClaimScope>, Vec<JobId>)> {
        let (low, high) = (*self.ids.first()?, *self.ids.last()?);
        let near = &jobs[jobs.partition_point(|job| job.0 < low)..jobs.partition_point(|job| job.0 <= high)];
        if near.is_empty() || !Arc::ptr_eq(&self.scope.epoch, epoch) {
            return None;
        }
        let ours: Vec<_> =
            near.iter().copied().filter(|job| self.ids.binary_search(&job.0).is_ok()).collect();
        (!ours.is_empty()).then(|| (Arc::clone(&self.scope), ours))
    }

    /// All its jobs, when it is one of these claims of this epoch and not finished.
    pub(crate) fn jobs_if(
        &self,
        epoch: &Arc<Epoch>,
        claims: &[ClaimRef],
    ) -> Option<(Arc<ClaimScope>, Vec<JobId>)> {
        let is_meant = !self.is_finished()
            && claims.contains(&self.scope.reference)
            && Arc::ptr_eq(&self.scope.epoch, epoch);
        is_meant.then(|| (Arc::clone(&self.scope), self.ids.iter().copied().map(JobId).collect()))
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.scope.epoch.worker()
    }

    /// How many of its jobs were started and are not finished.
    pub(crate) fn running(&self) -> usize {
        self.unfinished.saturating_sub(self.unstarted) as usize
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.completed_count as usize + self.exceptions.len()
    }

    /// Whether to settle what is finished now, rather than wait for more of the claim: a claim that is
    /// settled as a whole is one tiny row.
    pub(crate) fn is_due(&mut self, round: &Round) -> bool {
        let (since, at) = match self.dirty {
            Dirty::Since(since, at) => (since, at),
            Dirty::No | Dirty::New => (round.number, round.now),
        };
        self.dirty = Dirty::Since(since, at);
        let urgent = self.is_finished() || !self.waiters.is_empty() || self.bytes >= MANY_BYTES;
        if urgent || round.eagerness == Eagerness::Flush || self.scope.epoch.is_lost() {
            return true;
        }
        if self.unstarted > 0 {
            let to_go = Duration::try_from_secs_f64(f64::from(self.unstarted) / round.rate);
            let age = round.now.duration_since(at);
            if to_go.is_ok_and(|to_go| age + to_go <= round.patience) {
                return false;
            }
        }
        round.eagerness == Eagerness::Eager || since < round.number
    }

    /// Moves everything that is not settled yet into `batches`.
    pub(crate) fn take(&mut self, batches: &mut Batches) {
        self.dirty = Dirty::No;
        let batch = batches.of(&self.scope.epoch);
        let bytes = std::mem::take(&mut self.bytes);
        batch.closed_claims += usize::from(self.is_finished());
        batch.waiters.append(&mut self.waiters);
        if self.scope.epoch.is_lost() {
            self.exceptions.clear();
            self.clear_completed();
            return;
        }
        batch.jobs += self.unsettled();
        batch.bytes += bytes;
        if self.completed_count > 0 {
            // What was settled before is not taken for known: a failover may have lost it.
            let is_whole = self.unsettled() == self.ids.len() || cfg!(feature = "bug_rest_with_unfinished");
            let jobs = match is_whole {
                true => JobSet::Rest,
                false => {
                    let ranges = self.ranges();
                    batch.ranges += ranges.len();
                    JobSet::Ranges(ranges)
                }
            };
            let (claim, count) = (self.scope.reference, self.completed_count);
            batch.request.completions.push(Completion { claim, jobs, count });
        }
        batch.request.exceptions.append(&mut self.exceptions);
        self.clear_completed();
    }

    fn clear_completed(&mut self) {
        self.completed.fill(0);
        self.completed_count = 0;
    }

    /// Runs of ranks that completed, as inclusive ranges of ids. Jobs of other claims may lie between.
    fn ranges(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        let mut next_rank = None;
        for (word, bits) in self.completed.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let rank = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let id = self.ids[rank];
                match ranges.last_mut() {
                    Some(last) if next_rank == Some(rank) => last.1 = id,
                    _ => ranges.push((id, id)),
                }
                next_rank = Some(rank + 1);
            }
        }
        ranges
    }
}
