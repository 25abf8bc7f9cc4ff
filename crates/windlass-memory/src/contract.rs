use crate::{
    MemoryStore, claim, control, edit, enqueue, events, inspect, keys, list, maintain, report, retention,
    settle, unique,
    wakeup::{MemoryEnds, MemoryWakeup},
    workers,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, CancelReply, Capabilities, ClaimRequest, Claimed, Coming, DeleteReply, EditReply, Ends,
    EnqueuedOnce, EnqueuedUnique, EventPage, EventRequest, Heartbeat, History, HistoryRequest, JobEdit,
    JobFilter, JobId, JobPage, JobRecord, JobStore, KeyLimits, KeyLimitsChange, Leader, Limits, Load,
    MaintainReport, MigrationReport, NewJob, Promoted, QueueFilter, QueueLimits, QueueStats, Registration,
    ReportRequest, Reported, RescueReport, Result, RetentionRule, RetryReply, Settings, SettingsChange,
    SettleReply, SettleRequest, Share, ShareRequest, StoreStatus, UniqueBatch, Wakeup, WorkerId, WorkerSpec,
};

#[async_trait]
impl JobStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.keys = true;
        capabilities
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        Ok(MigrationReport { from: 1, to: 1, newer: false })
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        if UniqueBatch::is_needed(jobs) {
            return Ok(self.enqueue_unique(jobs).await?.iter().map(|stored| stored.id).collect());
        }
        self.limits.check(jobs)?;
        Ok(self.change(|state| enqueue::enqueue(state, jobs)).await)
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        Limits::check_idempotency_key(key)?;
        self.limits.check(jobs)?;
        UniqueBatch::refuse_under_idempotency_key(jobs)?;
        self.change(|state| enqueue::enqueue_once(state, key, jobs)).await
    }

    async fn enqueue_unique(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        self.limits.check(jobs)?;
        let batch = UniqueBatch::of(jobs)?;
        let stored = self.change(|state| unique::enqueue(state, &batch)).await?;
        Ok(batch.replies(&stored))
    }

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        worker.check()?;
        Ok(Registration { worker: workers::register(&mut *self.state().await, worker) })
    }

    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        workers::heartbeat(&mut *self.state().await, worker, load)
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.change(|state| workers::deregister(state, worker)).await;
        self.requests.tell();
        Ok(())
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        claim::claim(&mut *self.state().await, request)
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        self.change(|state| settle::settle(state, request)).await
    }

    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        request.check()?;
        report::report(&mut *self.state().await, request)
    }

    async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
        let state = self.state().await;
        let last = |id| state.jobs.get(id)?.said.as_ref()?.report.checkpoint.clone();
        Ok(ids.iter().map(last).collect())
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        workers::with_worker(&mut *self.state().await, worker, |worker| worker.suspect = job)
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        let report = self.change(|state| workers::rescue(state, rescuer)).await;
        if !report.workers.is_empty() {
            self.requests.tell();
        }
        Ok(report)
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        let (promoted, freed) = workers::promote(&mut *self.state().await, limit);
        if promoted.count > 0 || freed {
            self.changed.send_replace(());
        }
        Ok(promoted)
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        Ok(maintain::maintain(&mut *self.state().await))
    }

    async fn settings(&self) -> Result<Settings> {
        Ok(self.state().await.settings)
    }

    async fn change_settings(&self, change: &SettingsChange) -> Result<()> {
        change.check()?;
        let mut state = self.state().await;
        state.settings = change.of(state.settings);
        Ok(())
    }

    async fn retention(&self) -> Result<Vec<RetentionRule>> {
        Ok(self.state().await.retention.values().cloned().collect())
    }

    async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        RetentionRule::check_all(rules)?;
        retention::set(&mut *self.state().await, rules)
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let replies: Vec<_> = {
            let mut state = self.state().await;
            ids.iter().map(|id| control::cancel(&mut state, *id)).collect()
        };
        if replies.contains(&CancelReply::Running) {
            self.requests.tell();
        }
        if replies.contains(&CancelReply::Cancelled) {
            self.changed.send_replace(());
        }
        Ok(replies)
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        Ok(self.change(|state| ids.iter().map(|id| control::retry(state, *id)).collect()).await)
    }

    async fn edit(&self, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>> {
        edit.check(&self.limits)?;
        Ok(self.change(|state| ids.iter().map(|id| edit::edit(state, *id, edit)).collect()).await)
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        Ok(self.change(|state| ids.iter().map(|id| edit::delete(state, *id)).collect()).await)
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        if self.change(|state| control::pause(state, queue, paused)).await? {
            self.requests.tell();
        }
        Ok(())
    }

    async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        workers::drain(&mut *self.state().await, worker)?;
        self.requests.tell();
        Ok(())
    }

    async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        limits.check()?;
        Limits::check_queue_name(queue)?;
        control::limit(&mut *self.state().await, queue, *limits);
        self.requests.tell();
        Ok(())
    }

    async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        change.check()?;
        Limits::check_queue_name(queue)?;
        self.change(|state| keys::limit(state, queue, change)).await;
        Ok(())
    }

    async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        Ok(self.state().await.queues.get(queue).and_then(|queue| queue.keys.clone()))
    }

    async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
        let (shares, tell) = control::share(&mut *self.state().await, request)?;
        if tell {
            self.requests.tell();
        }
        Ok(shares)
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        Ok(inspect::any_available(&*self.state().await, queues, kinds))
    }

    async fn coming(&self, queues: &[String]) -> Result<Coming> {
        Ok(inspect::coming(&*self.state().await, queues))
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        Ok(inspect::job(&*self.state().await, id))
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        list::jobs(&*self.state().await, filter)
    }

    async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
        filter.check()?;
        Ok(inspect::queues(&*self.state().await, filter))
    }

    async fn history(&self, request: &HistoryRequest) -> Result<History> {
        request.check()?;
        let state = self.state().await;
        state.counters.history(state.now(), request)
    }

    async fn status(&self) -> Result<StoreStatus> {
        Ok(inspect::status(&*self.state().await))
    }

    async fn events(&self, request: &EventRequest) -> Result<EventPage> {
        events::events(&*self.state().await, request)
    }

    fn ends(&self) -> Option<Box<dyn Ends>> {
        Some(Box::new(MemoryEnds(self.changed.subscribe())))
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(MemoryWakeup::new(self.changed.subscribe(), Arc::clone(&self.requests)))
    }

    async fn close(&self) {}
}

#[async_trait]
impl Leader for MemoryStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        Ok(workers::lead(&mut *self.state().await, worker, term))
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        let mut state = self.state().await;
        state.leader = state.leader.filter(|(leader, _)| *leader != worker);
        Ok(())
    }
}
