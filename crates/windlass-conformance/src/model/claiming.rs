use super::play::{Actor, Play};
use crate::steps::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use windlass_core::{Claim, ClaimRequest, JobId, JobState, QueueDemand, Store, WorkerId};

/// A little less than jobs may wait behind better lanes: no priority starves.
const ALMOST_PATIENCE: Duration = Duration::from_secs(9);

/// What was asked of one queue.
struct Asked<'a> {
    queue: usize,
    limit: usize,
    worker: WorkerId,
    kinds: &'a [&'a str],
    contended: bool,
}

impl Play {
    pub(super) async fn claim(&mut self, who: usize) {
        let limits = [self.rng.u32(..9), self.rng.u32(..9)];
        let Actor { store, id, kinds } = &self.actors[who];
        let (store, id, kinds) = (Arc::clone(store), *id, *kinds);
        self.claim_as(&store, id, kinds, limits).await;
    }

    /// Claims, and checks the answer: who may have it, how many, best priority first.
    pub(super) async fn claim_as(
        &mut self,
        store: &Arc<dyn Store>,
        worker: WorkerId,
        kinds: &[&str],
        limits: [u32; 2],
    ) -> usize {
        let demand = |(queue, limit): (&String, u32)| QueueDemand::new(queue.as_str(), limit);
        let queues = self.queues.iter().zip(limits).map(demand).collect();
        let claimed = store.claim(&ClaimRequest { worker, queues }).await.expect("claim");
        let claims = claimed.claims;
        let contended = if claimed.contended { ", contended" } else { "" };
        let told = claims.iter().map(|claim| (claim.reference, ids(std::slice::from_ref(claim))));
        let told =
            format!("claim by {worker} of {kinds:?} {limits:?}{contended}: {:?}", told.collect::<Vec<_>>());
        self.trace(told);
        for (number, limit) in limits.into_iter().enumerate() {
            let of_queue: Vec<_> =
                claims.iter().filter(|claim| *claim.queue == self.queues[number]).collect();
            let asked =
                Asked { queue: number, limit: limit as usize, worker, kinds, contended: claimed.contended };
            self.check_answer(&asked, &of_queue).await;
        }
        for claim in &claims {
            self.oracle.claimed(worker, claim);
            let mut jobs: Vec<_> = claim.jobs.iter().map(|job| (job.id, job.position)).collect();
            jobs.sort_unstable();
            self.claims.insert(claim.reference, jobs);
        }
        ids(&claims).len()
    }

    /// What a claim by a worker with these kinds (none: any) may get of a queue, with its priority.
    pub(super) async fn eligible(&self, queue: usize, kinds: &[&str]) -> BTreeMap<JobId, i16> {
        let mut jobs = self.oracle.records().await;
        let knows = |kind: &str| kinds.is_empty() || kinds.contains(&kind);
        jobs.retain(|_, job| {
            let may = job.state == JobState::Available && (job.reason.is_none() || knows(&job.kind));
            may && job.queue == self.queues[queue]
        });
        jobs.into_iter().map(|(id, job)| (id, job.priority)).collect()
    }

    async fn check_answer(&mut self, asked: &Asked<'_>, claims: &[&Claim]) {
        let Asked { queue, limit, worker, kinds, contended } = *asked;
        let mut eligible = self.eligible(queue, kinds).await;
        let ids: Vec<_> = eligible.keys().copied().collect();
        let handed_out: Vec<_> =
            claims.iter().flat_map(|claim| claim.jobs.iter().map(|job| job.id)).collect();
        self.check_order(queue, &handed_out, &ids).await;
        let admitted = self.admitted(queue, worker).await;
        // With limits of keys it may first put jobs in their places.
        let may_be_short = admitted.is_some() && contended;
        let mut best = admitted.unwrap_or_else(|| eligible.values().copied().collect());
        best.sort_unstable();
        let (all, stones) = (best.len(), self.stones[queue]);
        let mut priorities = Vec::new();
        for claim in claims {
            assert!(!claim.jobs.is_empty(), "a claim without jobs");
            for job in &claim.jobs {
                let id = job.id;
                assert_eq!(eligible.remove(&id), Some(claim.priority), "job {id} is not to be had");
                priorities.push(claim.priority);
            }
        }
        if self.paused[queue] {
            assert!(priorities.is_empty(), "a paused queue gave {priorities:?}");
        } else if may_be_short {
            assert!(priorities.len() <= all, "{priorities:?}, {all} to be had");
        } else if stones == 0 {
            // On a busy machine a history takes longer than a lane waits behind better ones before one of its jobs goes first.
            if self.began.elapsed() > ALMOST_PATIENCE
                && let Some(first) =
                    priorities.first().and_then(|first| best.iter().position(|of| of == first))
            {
                best[..=first].rotate_right(1);
            }
            let due = limit.min(all);
            // A claim that ran out of time before it came to all of them says so.
            let given = if contended { priorities.len().min(due) } else { due };
            assert_eq!(priorities, best[..given], "priorities of queue {queue}, {all} to be had");
        } else if priorities.len() == all && limit > all + stones {
            self.stones[queue] = 0;
        }
        assert!(priorities.len() <= limit);
    }
}
