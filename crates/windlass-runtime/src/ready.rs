use crate::{
    epoch::ClaimScope,
    gathering::{BatchedKinds, DueBatch, Gatherings, Most},
    overtaking::{self, Keys},
    popped::{Gathered, Popped, is_suspect},
    ready_claim::ReadyClaim,
};
use std::{collections::VecDeque, sync::Arc};
use tokio::time::Instant;
use windlass_core::ClaimedJob;

/// Claimed jobs of one queue that wait for a free executor: best priority first, then as claimed, but for those of keys that have nothing
/// there yet.
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

    /// What those cost, in the order in which they are taken. Of jobs that wait behind a full batch of theirs only as many as will fill others: the rest
    /// might not start in time.
    pub(crate) fn costs(&self) -> impl Iterator<Item = u32> + Clone {
        let batches = self.gatherings.iter().flat_map(|gatherings| gatherings.costs(Instant::now()));
        let claims = self.claims.iter().flat_map(|claim| claim.jobs.as_slice());
        let full = self.next_one().filter(|job| self.will_gather(job)).and_then(|_| self.due_batch());
        let most = full.map_or(usize::MAX, |batch| self.jobs / batch.jobs.len() * batch.jobs.len());
        let ends = full.is_none();
        let claims = claims.take_while(move |job| !(ends && self.will_gather(job))).take(most);
        batches.chain(claims.map(ClaimedJob::cost))
    }

    fn will_gather(&self, job: &ClaimedJob) -> bool {
        self.gatherings
            .as_ref()
            .is_some_and(|gatherings| !is_suspect(job) && gatherings.is_batched(&job.kind))
    }

    /// So much may start together.
    pub(crate) fn set_most(&mut self, most: Most) {
        if let Some(gatherings) = &mut self.gatherings {
            gatherings.set_most(most);
            self.gather();
        }
    }

    /// Those that wait for no batch.
    pub(crate) fn unbatched(&self) -> usize {
        self.jobs
    }

    /// Queues a claim behind those of its priority and before those of worse ones. The first so many of its jobs, of keys that have
    /// nothing ready, go before claims of its priority that may be passed.
    pub(crate) fn push(&mut self, claim: ReadyClaim, quiet: usize) {
        let others = match quiet {
            0 => claim,
            quiet => {
                let (quiet, others) = claim.split(quiet);
                let at = self.pass(&quiet);
                self.insert(at, quiet);
                others
            }
        };
        if others.jobs.len() > 0 {
            self.insert(self.place_of(others.scope.priority), others);
        }
        self.gather();
    }

    fn insert(&mut self, at: usize, mut claim: ReadyClaim) {
        self.jobs += claim.jobs.len();
        claim.keys = Keys::of(claim.jobs.as_slice());
        self.claims.insert(at, claim);
    }

    /// Its place, before those that let it pass.
    fn pass(&mut self, claim: &ReadyClaim) -> usize {
        let (priority, jobs) = (claim.scope.priority, claim.jobs.len());
        let end = self.place_of(priority);
        let passes = |ready: &mut ReadyClaim| {
            ready.scope.priority == priority && ready.keys.as_mut().is_some_and(|keys| keys.let_pass(jobs))
        };
        let stops = self.claims.range_mut(..end).rev().position(|ready| !passes(ready));
        stops.map_or(0, |passed| end - passed)
    }

    fn place_of(&self, priority: i16) -> usize {
        let better = |ready: &ReadyClaim| ready.scope.priority <= priority;
        self.claims.iter().rposition(better).map_or(0, |at| at + 1)
    }

    /// Puts those jobs first whose keys have nothing ready, and says how many.
    pub(crate) fn quiet_first(&self, priority: i16, jobs: &mut Vec<ClaimedJob>) -> usize {
        let ready = self.claims.iter().filter(|ready| ready.scope.priority == priority);
        overtaking::quiet_first(&ready.filter_map(|ready| ready.keys.as_ref()).collect::<Vec<_>>(), jobs)
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

    /// The oldest batch that is full or has waited long enough.
    pub(crate) fn due_batch(&self) -> Option<DueBatch<'_>> {
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

    /// Since when the oldest of them wait for nothing but an executor.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let claimed = self.claims.iter().map(|claim| claim.scope.asked_at()).min();
        let batches = self.gatherings.as_ref().and_then(|gatherings| gatherings.startable_since());
        claimed.into_iter().chain(batches).min()
    }

    /// Takes out what could start by then: claims that were asked for, and batches that were due.
    pub(crate) fn remove_since(&mut self, then: Instant) -> Unstarted {
        let gathered =
            self.gatherings.as_mut().map_or_else(Vec::new, |gatherings| gatherings.remove_since(then));
        // What gathers has not waited for a place, whenever its claim was made.
        let (claims, kept) =
            std::mem::take(&mut self.claims).into_iter().partition(|claim| claim.scope.asked_at() <= then);
        self.keep(kept);
        Unstarted { claims, gathered }
    }

    /// Takes out those claims.
    pub(crate) fn remove(&mut self, goes: impl Fn(&ClaimScope) -> bool) -> Unstarted {
        let all = std::mem::take(&mut self.claims);
        let (claims, kept) = all.into_iter().partition(|claim| goes(&claim.scope));
        let gathered = self.gatherings.as_mut().map_or_else(Vec::new, |gatherings| gatherings.remove(goes));
        self.keep(kept);
        Unstarted { claims, gathered }
    }

    /// These claims are what is left.
    fn keep(&mut self, claims: Vec<ReadyClaim>) {
        self.jobs = claims.iter().map(|claim| claim.jobs.len()).sum();
        self.claims = claims.into();
        self.gather();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{epoch::Epoch, made_up};
    use windlass_core::{Attributes, ClaimRef, WorkerId};

    /// A job of this key; a dot: of none.
    fn job(key: char) -> ClaimedJob {
        let key = (key != '.').then(|| key.to_string());
        let attributes = key.map(|key| Box::new(Attributes { key: Some(key), ..Attributes::default() }));
        ClaimedJob { attributes, ..made_up::job(0) }
    }

    /// The keys of the jobs of these claims, each a character and a dot for none, in the order in which they start.
    fn started(claims: &[(i16, &str)]) -> String {
        let (mut ready, mut order) = (Ready::default(), String::new());
        let epoch = Epoch::new(WorkerId(1), Arc::default());
        for (slot, (priority, keys)) in claims.iter().enumerate() {
            let mut jobs: Vec<_> = keys.chars().map(job).collect();
            let quiet = ready.quiet_first(*priority, &mut jobs);
            let scope = made_up::scope(&epoch, ClaimRef(1, slot as u64), *priority);
            ready.push(ReadyClaim::new(scope, slot as u32, jobs), quiet);
        }
        let mut next = vec![0; claims.len()];
        while let Some(Popped { slot, job, index }) = ready.pop(&mut None) {
            let expected = &mut next[slot as usize];
            assert_eq!(index, *expected, "the start order within its claim");
            *expected += 1;
            order += job.attributes.and_then(|attributes| attributes.key).as_deref().unwrap_or(".");
        }
        assert_eq!((ready.len(), ready.claims.len()), (0, 0));
        order
    }

    #[test]
    fn a_key_that_has_nothing_ready_goes_before_others_that_have_more_than_one_job() {
        assert_eq!(started(&[(0, "aaaa"), (0, "aaab")]), "baaaaaaa");
        assert_eq!(started(&[(0, "aaaa"), (0, "b"), (0, "abc")]), "bcaaaaab", "b has one ready");
        assert_eq!(
            started(&[(0, "aa"), (0, "aa"), (0, "b")]),
            "baaaa",
            "also before claims that wait longer"
        );
        assert_eq!(started(&[(0, "aaa"), (0, "a.a")]), ".aaaaa", "none is a key as well");
    }

    #[test]
    fn no_job_waits_for_more_than_its_claim_has_beside_one_of_each_key() {
        assert_eq!(started(&[(0, "aaa"), (0, "bc"), (0, "d"), (0, "e")]), "bcaaade");
        assert_eq!(started(&[(0, "aaa"), (0, "bcd")]), "aaabcd", "three are too many");
        assert_eq!(started(&[(0, "abc"), (0, "def")]), "abcdef", "nobody waits behind a job of its own key");
        assert_eq!(started(&[(0, "aaaa"), (0, "a"), (0, "b")]), "aaaaab", "nor does the last claim");
    }

    #[test]
    fn priorities_come_first_and_what_has_no_keys_stays_as_claimed() {
        assert_eq!(started(&[(0, "aaa"), (1, "aaa"), (1, "b"), (-1, "c")]), "caaabaaa");
        assert_eq!(started(&[(0, "..."), (0, "...")]), "......");
        assert_eq!(started(&[(0, "..."), (0, "a")]), "...a", "nothing there has a key");
    }
}
