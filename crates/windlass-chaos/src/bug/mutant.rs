use super::Bug;
use async_trait::async_trait;
use fastrand::Rng;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use windlass_core::{
    CancelReply, Capabilities, Claim, ClaimRequest, Claimed, Completion, Disposition, EnqueuedOnce,
    Heartbeat, JobFilter, JobId, JobPage, JobRecord, JobSet, JobStore, Leader, MaintainReport,
    MigrationReport, NewJob, Promoted, QueueStats, Registration, RescueReport, Result, RetryReply, Settings,
    SettleReply, SettleRequest, Settled, Store, StoreStatus, Wakeup, WorkerId, WorkerSpec,
};

/// A store that does one thing wrong, now and then.
pub(super) struct Mutant {
    bug: Bug,
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    last: Vec<Claim>,
}

impl Mutant {
    pub(super) fn new(bug: Bug, store: Arc<dyn Store>, seed: u64) -> Self {
        Self { bug, store, state: Mutex::new(State { rng: Rng::with_seed(seed), last: Vec::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_in(&self, of: u32) -> bool {
        self.state().rng.u32(0..of) == 0
    }

    fn spoil_claim(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        match self.bug {
            Bug::DoubleClaim => {
                if claims.is_empty() {
                    return claims;
                }
                let last = std::mem::replace(&mut self.state().last, claims.clone());
                if self.one_in(8) {
                    claims.extend(last);
                }
            }
            Bug::SwappedArgs => {
                for claim in claims.iter_mut().filter(|claim| claim.jobs.len() > 1) {
                    let args = claim.jobs[0].args.clone();
                    claim.jobs[0].args = std::mem::replace(&mut claim.jobs[1].args, args);
                }
            }
            _ => {}
        }
        claims
    }

    fn spoil_settlement(&self, mut request: SettleRequest) -> SettleRequest {
        match self.bug {
            Bug::RestSettlesUnstarted => {
                for completion in &mut request.completions {
                    completion.jobs = JobSet::Rest;
                }
            }
            Bug::ReturnCompletes => {
                let (back, other) = std::mem::take(&mut request.exceptions)
                    .into_iter()
                    .partition::<Vec<_>, _>(|exception| exception.disposition == Disposition::Return);
                request.exceptions = other;
                request.completions.extend(back.iter().map(|exception| Completion {
                    claim: exception.claim,
                    jobs: JobSet::Ranges(vec![(exception.job.0, exception.job.0)]),
                    count: 1,
                }));
            }
            Bug::RetryCancels => {
                for exception in &mut request.exceptions {
                    if let Disposition::Retry { error, .. } = &exception.disposition {
                        exception.disposition = Disposition::Cancel { reason: error.clone() };
                    }
                }
            }
            _ => {}
        }
        request
    }
}

fn all_accepted(request: &SettleRequest) -> SettleReply {
    SettleReply {
        completions: vec![Settled::Accepted; request.completions.len()],
        exceptions: vec![Settled::Accepted; request.exceptions.len()],
    }
}

#[async_trait]
impl JobStore for Mutant {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        self.store.migrate().await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        self.store.enqueue(jobs).await
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        self.store.enqueue_once(key, jobs).await
    }

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        self.store.register(worker).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<Heartbeat> {
        self.store.heartbeat(worker).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.store.deregister(worker).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let Claimed { claims, contended } = self.store.claim(request).await?;
        Ok(Claimed { claims: self.spoil_claim(claims), contended })
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        if self.bug == Bug::DroppedSettlement && self.one_in(20) {
            return Ok(all_accepted(request));
        }
        let entries = (request.completions.len(), request.exceptions.len());
        let spoiled = self.spoil_settlement(request.clone());
        match self.store.settle(&spoiled).await {
            Err(error) if self.bug == Bug::DropBatchOnError && error.is_connection_loss() => {
                Ok(all_accepted(request))
            }
            Ok(_) if (spoiled.completions.len(), spoiled.exceptions.len()) != entries => {
                Ok(all_accepted(request))
            }
            result => result,
        }
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.store.suspect(worker, job).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        self.store.rescue(rescuer).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.store.promote(limit).await
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        self.store.maintain().await
    }

    async fn settings(&self) -> Result<Settings> {
        self.store.settings().await
    }

    async fn configure(&self, settings: &Settings) -> Result<()> {
        self.store.configure(settings).await
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        self.store.cancel(ids).await
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.store.retry(ids).await
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        self.store.pause(queue, paused).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        self.store.jobs(filter).await
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        self.store.any_available(queues, kinds).await
    }

    async fn queues(&self) -> Result<Vec<QueueStats>> {
        self.store.queues().await
    }

    async fn status(&self) -> Result<StoreStatus> {
        self.store.status().await
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        self.store.wakeup()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[async_trait]
impl Leader for Mutant {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.store.lead(worker, term).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.store.resign(worker).await
    }
}
