use super::{Held, LEASE, QUEUE, eventually, held, ids};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;
use windlass_core::{
    Claim, ClaimRequest, Completion, Disposition, Exception, JobId, JobSet, QueueDemand, Result, SettleReply,
    SettleRequest, Settled, Store, WorkerId, WorkerSpec,
};

/// A registered worker whose every step a rule decides. It never heartbeats by itself.
pub struct TestWorker {
    /// The store it works on.
    pub store: Arc<dyn Store>,
    /// Its identity.
    pub id: WorkerId,
    queues: Vec<Arc<str>>,
}

/// Registers a worker on queues, with handlers for kinds (none: any kind) and a lease.
pub async fn worker(store: &Arc<dyn Store>, queues: &[&str], kinds: &[&str], lease: Duration) -> TestWorker {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let spec = WorkerSpec {
        name: "test".to_owned(),
        queues: owned(queues),
        kinds: owned(kinds),
        lease,
        program: Default::default(),
    };
    let id = store.register(&spec).await.expect("register").worker;
    TestWorker { store: Arc::clone(store), id, queues: queues.iter().map(|&name| name.into()).collect() }
}

/// Registers a worker on [`QUEUE`] that takes any kind and stays live for the whole test.
pub async fn worker_on(store: &Arc<dyn Store>) -> TestWorker {
    worker(store, &[QUEUE], &[], LEASE).await
}

impl TestWorker {
    /// Asks for at most `limit` jobs of each of its queues.
    pub async fn try_claim(&self, limit: u32) -> Result<Vec<Claim>> {
        let demand = |queue: &Arc<str>| QueueDemand::new(Arc::clone(queue), limit);
        let queues = self.queues.iter().map(demand).collect();
        Ok(self.store.claim(&ClaimRequest { worker: self.id, queues }).await?.claims)
    }

    /// Claims, and checks what holds for every claim: never empty, never more than asked for.
    pub async fn claim(&self, limit: u32) -> Vec<Claim> {
        let claims = self.try_claim(limit).await.expect("claim");
        assert!(claims.iter().all(|claim| !claim.jobs.is_empty()), "a claim without jobs");
        for queue in &self.queues {
            let of_queue = claims.iter().filter(|claim| claim.queue == *queue);
            let handed: usize = of_queue.map(|claim| claim.jobs.len()).sum();
            assert!(handed <= limit as usize, "asked for {limit} jobs of {queue}, got {handed}");
        }
        claims
    }

    /// Claims until it holds exactly `count` jobs; an empty answer before that breaks the rule.
    pub async fn take(&self, count: usize) -> Vec<Held> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let claims = self.claim((count - taken.len()) as u32).await;
            assert!(!claims.is_empty(), "{} of {count} jobs handed out, then nothing", taken.len());
            taken.extend(held(&claims));
        }
        assert_eq!(taken.len(), count, "more jobs than asked for");
        taken
    }

    /// Claims one job.
    pub async fn take_one(&self) -> Held {
        self.take(1).await.remove(0)
    }

    /// Promotes and claims until `count` jobs came.
    pub async fn take_when_due(&self, count: usize) -> Vec<Held> {
        let taken = Mutex::new(Vec::new());
        eventually("jobs become due", || async {
            self.store.promote(1_000).await.expect("promote");
            let mut taken = taken.lock().await;
            let missing = count - taken.len();
            taken.extend(held(&self.claim(missing as u32).await));
            (taken.len() == count).then_some(())
        })
        .await;
        taken.into_inner()
    }

    /// There is nothing to claim, also after a promotion.
    pub async fn finds_nothing(&self) {
        self.store.promote(1_000).await.expect("promote");
        let found = ids(&self.claim(10).await);
        assert!(found.is_empty(), "nothing should be available, got {found:?}");
    }

    /// Settles; the caller looks at the reply or at the error.
    pub async fn try_settle(
        &self,
        completions: Vec<Completion>,
        exceptions: Vec<Exception>,
    ) -> Result<SettleReply> {
        self.store.settle(&SettleRequest { worker: self.id, completions, exceptions }).await
    }

    /// Settles, and checks that each entry got its reply.
    pub async fn settle(&self, completions: Vec<Completion>, exceptions: Vec<Exception>) -> SettleReply {
        let (expected, expected_exceptions) = (completions.len(), exceptions.len());
        let reply = self.try_settle(completions, exceptions).await.expect("settle");
        assert_eq!(reply.completions.len(), expected, "one reply per completion");
        assert_eq!(reply.exceptions.len(), expected_exceptions, "one reply per exception");
        reply
    }

    /// Completes one job by its id.
    pub async fn complete(&self, held: &Held) -> Settled {
        self.settle(vec![held.completion()], vec![]).await.completions[0]
    }

    /// Settles one job with another fate.
    pub async fn except(&self, held: &Held, disposition: Disposition) -> Settled {
        self.settle(vec![], vec![held.exception(disposition)]).await.exceptions[0]
    }

    /// Completes whole claims in one call; each must be accepted.
    pub async fn complete_claims(&self, claims: &[Claim]) {
        let reply = self.settle(claims.iter().map(rest_of).collect(), vec![]).await;
        assert!(reply.completions.iter().all(|&settled| settled == Settled::Accepted), "{reply:?}");
    }

    /// Claims so many jobs and completes them. The ids in order.
    pub async fn drain_some(&self, count: usize) -> Vec<JobId> {
        let taken = self.take(count).await;
        self.settle(taken.iter().map(Held::completion).collect(), vec![]).await;
        taken.iter().map(|held| held.job.id).collect()
    }

    /// Claims and completes, `batch` jobs at a time, until nothing is left. The ids in order.
    pub async fn drain(&self, batch: u32) -> Vec<JobId> {
        let mut drained = Vec::new();
        loop {
            let claims = self.claim(batch).await;
            if claims.is_empty() {
                return drained;
            }
            self.complete_claims(&claims).await;
            drained.extend(ids(&claims));
        }
    }
}

/// Says that all of a claim completed.
fn rest_of(claim: &Claim) -> Completion {
    Completion { claim: claim.reference, jobs: JobSet::Rest, count: claim.jobs.len() as u32 }
}
