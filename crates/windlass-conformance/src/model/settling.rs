use super::play::Play;
use crate::steps::{self, *};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    ClaimRef, Completion, Disposition, Exception, JobId, JobSet, JobState, Result, SettleReply,
    SettleRequest, Settled, Store, WorkerId,
};

impl Play {
    pub(super) async fn settle(&mut self, who: usize) {
        let (store, id) = (Arc::clone(&self.actors[who].store), self.actors[who].id);
        self.settle_as(&store, id).await;
    }

    /// Settles some of what a worker holds: whole claims, parts, exceptions, in any mix.
    pub(super) async fn settle_as(&mut self, store: &Arc<dyn Store>, worker: WorkerId) {
        let mut request = SettleRequest { worker, ..SettleRequest::default() };
        for (claim, open) in self.oracle.held_by(worker).await {
            let whole = self.rng.bool();
            let (mut done, mut left) = (Vec::new(), 0);
            for id in open {
                match self.rng.u32(..10) {
                    0..3 => request.exceptions.push(self.exception(claim, id)),
                    3..7 => done.push(id),
                    _ if whole => done.push(id),
                    _ => left += 1,
                }
            }
            if !done.is_empty() {
                let jobs =
                    if left == 0 && whole { JobSet::Rest } else { JobSet::Ranges(self.ranges(claim, &done)) };
                request.completions.push(Completion { claim, jobs, count: done.len() as u32 });
            }
        }
        let reply = self.settle_at_both(store, &request).await.expect("settle");
        assert!(fates(&reply).all(|fate| fate == Settled::Accepted), "{reply:?}");
        self.past.push(request);
    }

    /// Sends a settlement to the store and to the oracle, which accept the same of it.
    async fn settle_at_both(
        &mut self,
        store: &Arc<dyn Store>,
        request: &SettleRequest,
    ) -> Result<SettleReply> {
        let (reply, known) = (store.settle(request).await, self.oracle.settle(request).await);
        self.trace(format!("{request:?}: {reply:?}"));
        match (&reply, &known) {
            (Ok(reply), Ok(known)) => {
                let accepted = |reply| fates(reply).map(|fate| fate == Settled::Accepted).collect::<Vec<_>>();
                assert_eq!(accepted(reply), accepted(known), "{reply:?}, oracle: {known:?}");
            }
            (Err(error), Err(known)) => assert_eq!(error.kind(), known.kind()),
            _ => panic!("{reply:?}, oracle: {known:?}"),
        }
        reply
    }

    /// Completes all that a worker holds.
    pub(super) async fn settle_everything(&mut self, store: &Arc<dyn Store>, worker: WorkerId) {
        let held = self.oracle.held_by(worker).await;
        let rest = |(&claim, open): (&ClaimRef, &Vec<JobId>)| Completion {
            claim,
            jobs: JobSet::Rest,
            count: open.len() as u32,
        };
        let completions: Vec<_> = held.iter().map(rest).collect();
        let request = SettleRequest { worker, completions, exceptions: vec![] };
        let reply = self.settle_at_both(store, &request).await.expect("settle");
        assert!(fates(&reply).all(|fate| fate == Settled::Accepted), "{reply:?}");
    }

    /// Runs of neighbours in the claim, cut at random. Jobs of other claims may lie between.
    fn ranges(&mut self, claim: ClaimRef, done: &[JobId]) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        let mut open = false;
        for (id, _) in &self.claims[&claim] {
            if !done.contains(id) {
                open = false;
                continue;
            }
            match ranges.last_mut() {
                Some(last) if open => last.1 = id.0,
                _ => ranges.push((id.0, id.0)),
            }
            open = self.rng.u32(..4) > 0;
        }
        ranges
    }

    fn exception(&mut self, claim: ClaimRef, id: JobId) -> Exception {
        let position = self.claims[&claim].iter().find(|job| job.0 == id).expect("a job of the claim").1;
        let disposition = match any_fate(&mut self.rng) {
            // A claim by somebody who knows its kind puts it in its turn; who comes when it has that may not know the kind.
            Disposition::NoHandler if self.has_keys() => Disposition::Return,
            disposition => disposition,
        };
        Exception { claim, job: id, position, disposition }
    }

    /// Sends an old settlement again: nothing changes, and nothing is accepted twice.
    pub(super) async fn repeat_a_settlement(&mut self) {
        if self.past.is_empty() {
            return;
        }
        let request = self.past[self.rng.usize(..self.past.len())].clone();
        let actor = self.actors.iter().find(|actor| actor.id == request.worker);
        let (store, lives) = (Arc::clone(actor.map_or(&self.admin, |actor| &actor.store)), actor.is_some());
        match self.settle_at_both(&store, &request).await {
            Ok(reply) => {
                assert!(lives, "a dead worker settles: {reply:?}");
                assert!(fates(&reply).all(|fate| fate != Settled::Accepted), "accepted again: {reply:?}");
            }
            Err(refused) => assert!(!lives && refused.is_lease_lost(), "{refused}"),
        }
    }

    /// Settles another worker's jobs, jobs of a claim that never was, and jobs that are settled already.
    pub(super) async fn settle_what_is_not_ours(&mut self, who: usize) {
        let (store, worker) = (Arc::clone(&self.actors[who].store), self.actors[who].id);
        let mut request = SettleRequest { worker, ..SettleRequest::default() };
        let this = Some(self.oracle.worker(worker));
        let others = self.ids_where(|job| job.state == JobState::Running && job.claimed_by != this).await;
        for id in others {
            let claim = self.oracle.claim_of(id);
            request.exceptions.push(self.exception(claim, id));
            request.completions.push(Completion { claim, jobs: JobSet::Rest, count: 1 });
        }
        for (claim, open) in self.oracle.held_by(worker).await {
            let forged = ClaimRef(claim.0 ^ 1, claim.1);
            let ranges = JobSet::Ranges(vec![(open[0].0, open[0].0)]);
            request.completions.push(Completion { claim: forged, jobs: ranges, count: 1 });
        }
        let reply = self.settle_at_both(&store, &request).await.expect("settle");
        assert!(fates(&reply).all(|fate| fate == Settled::Refused), "{reply:?}");
    }
}

fn fates(reply: &SettleReply) -> impl Iterator<Item = Settled> {
    reply.completions.iter().chain(&reply.exceptions).copied()
}

/// Any fate of a job that is settled by itself; delays end at once or never.
pub(super) fn any_fate(rng: &mut fastrand::Rng) -> Disposition {
    let delay = if rng.bool() { Duration::ZERO } else { LATER };
    let error = String::from("no");
    match rng.u32(..11) {
        0 | 1 => Disposition::Retry { delay, error },
        2 => Disposition::Snooze { delay },
        3 => Disposition::Cancel { reason: error },
        4 => Disposition::Discard { error, failed: rng.bool() },
        5 | 6 => Disposition::NoHandler,
        7 => Disposition::Undecryptable { delay, error },
        8 => Disposition::Complete { result: Some(steps::args(rng.usize(..100))) },
        9 => Disposition::Complete { result: None },
        _ => Disposition::Return,
    }
}
