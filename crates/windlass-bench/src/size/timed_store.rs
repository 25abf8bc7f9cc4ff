//! A store that times what the worker of the busy queue asks of it.

use super::timings::Timings;
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use windlass::{
    CancelReply, EnqueuedOnce, JobFilter, JobId, JobPage, JobRecord, MaintainReport, MigrationReport, NewJob,
    QueueStats, Result, RetryReply, Settings, Store, StoreStatus, WorkerId,
};
use windlass_core::{
    Capabilities, ClaimRequest, Claimed, Heartbeat, JobStore, Leader, Promoted, Registration, RescueReport,
    SettleReply, SettleRequest, Wakeup, WorkerSpec,
};

/// Passes every call on, and notes how long some take.
pub(super) struct TimedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) timings: Arc<Timings>,
}

#[async_trait]
impl JobStore for TimedStore {
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
        let claim = self.store.claim(request);
        self.timings
            .time(claim, |times, began, took, claimed| {
                times.claims.record(took);
                times.slowest = times.slowest.max(took);
                if claimed.as_ref().is_ok_and(|claimed| !claimed.claims.is_empty()) {
                    times.first_jobs.get_or_insert(began);
                }
            })
            .await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let settle = self.store.settle(request);
        self.timings
            .time(settle, |times, _, took, _| {
                times.settles.record(took);
                times.slowest = times.slowest.max(took);
            })
            .await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.store.suspect(worker, job).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        self.store.rescue(rescuer).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.timings.time(self.store.promote(limit), |times, _, took, _| times.promotes.record(took)).await
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
impl Leader for TimedStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.store.lead(worker, term).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.store.resign(worker).await
    }
}
