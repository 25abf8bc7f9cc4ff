use super::{fault::Call, model::Model, store::FakeStore, wakeup::FakeWakeup};
use async_trait::async_trait;
use std::time::Duration;
use windlass_core::{
    Args, AuditEntry, AuditFilter, AuditPage, AuditStore, CancelReply, Capabilities, ClaimRequest, Claimed,
    Coming, DeleteReply, Disposition, DueSchedules, EditReply, EnqueuedOnce, EnqueuedUnique, EventPage,
    EventRequest, FailureGroup, Heartbeat, History, HistoryRequest, JobEdit, JobFilter, JobId, JobPage,
    JobRecord, JobStore, KeyLimits, KeyLimitsChange, Leader, Load, MaintainReport, MigrationReport, NewJob,
    Promoted, QueueFilter, QueueLimits, QueueStats, Registration, ReportRequest, Reported, RescueReport,
    Result, RetentionRule, RetryReply, Schedule, ScheduleFilter, ScheduleRecord, ScheduleStep, ScheduleStore,
    SchedulesPut, Settings, SettingsChange, SettleReply, SettleRequest, Share, ShareRequest, StoreStatus,
    Timing, TimingRequest, TimingStore, Timings, Wakeup, WorkerId, WorkerSpec,
};

/// Calls of a worker go through [`act`](FakeStore::act), where they are delayed and fail; others straight to the store.
#[async_trait]
impl JobStore for FakeStore {
    fn capabilities(&self) -> Capabilities {
        // Who is not waiting yet hears no hint of it, so it cannot promise what the rules of keys ask for.
        let mut capabilities = self.memory.capabilities();
        capabilities.keys = false;
        capabilities
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        self.memory.migrate().await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let ids = self.lock().enqueue(jobs, 0);
        self.announce();
        ids
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        let enqueued = self.lock().run(async |store| store.enqueue_once(key, jobs).await).0;
        self.announce();
        enqueued
    }

    async fn enqueue_unique(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        let enqueued = self.lock().run(async |store| store.enqueue_unique(jobs).await).0;
        self.announce();
        enqueued
    }

    async fn register(&self, spec: &WorkerSpec) -> Result<Registration> {
        self.act(Call::Register, None, |model| model.register(self.client(), spec)).await
    }

    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        self.act(Call::Heartbeat, Some(worker), |model| model.heartbeat(self.client(), worker, load)).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        let done = self.act(Call::Deregister, Some(worker), |model| model.deregister(worker)).await;
        self.announce();
        done
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        self.act(Call::Claim, Some(request.worker), |model| model.claim(self.client(), request)).await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let settle = |model: &mut Model| model.settle(self.client(), request);
        let reply = self.act(Call::Settle, Some(request.worker), settle).await;
        let returns = request.exceptions.iter().any(|exception| exception.disposition == Disposition::Return);
        if returns || self.lock().keyed {
            self.announce();
        }
        reply
    }

    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        self.act(Call::Report, Some(request.worker), |model| model.report(request)).await
    }

    async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
        self.act(Call::Checkpoints, None, |model| model.run(async |store| store.checkpoints(ids).await).0)
            .await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.act(Call::Suspect, Some(worker), |model| model.announce_suspect(worker, job)).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        self.act(Call::Upkeep, None, |model| model.rescue(rescuer)).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.act(Call::Upkeep, None, |model| model.promote(limit)).await
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        self.act(Call::Upkeep, None, |model| model.run(async |store| store.maintain().await).0).await
    }

    async fn settings(&self) -> Result<Settings> {
        self.memory.settings().await
    }

    async fn change_settings(&self, change: &SettingsChange) -> Result<()> {
        self.memory.change_settings(change).await
    }

    async fn retention(&self) -> Result<Vec<RetentionRule>> {
        self.memory.retention().await
    }

    async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        self.memory.set_retention(rules).await
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        self.lock().cancel(ids)
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.lock().retry(ids)
    }

    async fn edit(&self, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>> {
        self.lock().run(async |store| store.edit(ids, edit).await).0
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        self.lock().run(async |store| store.delete(ids).await).0
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        self.memory.pause(queue, paused).await
    }

    async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        self.memory.drain_worker(worker).await
    }

    async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        self.memory.limit(queue, limits).await
    }

    async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        self.memory.limit_keys(queue, change).await?;
        self.announce();
        Ok(())
    }

    async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        self.memory.key_limits(queue).await
    }

    async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
        let locked = self.locked.lock().unwrap().clone();
        let (refused, free) = request
            .queues
            .iter()
            .cloned()
            .partition::<Vec<_>, _>(|need| locked.iter().any(|queue| **queue == *need.queue));
        let asked = ShareRequest { queues: free, ..request.clone() };
        let share = |model: &mut Model| model.run(async |store| store.share(&asked).await).0;
        let mut shares = self.act(Call::Share, Some(request.worker), share).await?.into_iter();
        let reply = |need| if refused.contains(need) { None } else { shares.next().flatten() };
        Ok(request.queues.iter().map(reply).collect())
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.memory.job(id).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        self.memory.jobs(filter).await
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        self.memory.any_available(queues, kinds).await
    }

    async fn coming(&self, queues: &[String]) -> Result<Coming> {
        self.memory.coming(queues).await
    }

    async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
        self.memory.queues_by(filter).await
    }

    async fn history(&self, request: &HistoryRequest) -> Result<History> {
        self.memory.history(request).await
    }

    async fn events(&self, request: &EventRequest) -> Result<EventPage> {
        self.memory.events(request).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        self.memory.status().await
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(FakeWakeup::new(self.clone()))
    }

    async fn close(&self) {}
}

#[async_trait]
impl Leader for FakeStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.act(Call::Upkeep, None, |model| model.run(async |store| store.lead(worker, term).await).0).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.act(Call::Upkeep, None, |model| model.run(async |store| store.resign(worker).await).0).await
    }
}

#[async_trait]
impl ScheduleStore for FakeStore {
    async fn put_schedules(&self, schedules: &[Schedule], prune: Option<&str>) -> Result<SchedulesPut> {
        self.memory.put_schedules(schedules, prune).await
    }

    async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        self.memory.schedules(filter).await
    }

    async fn remove_schedules(&self, names: &[String]) -> Result<Vec<bool>> {
        self.memory.remove_schedules(names).await
    }

    async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        self.memory.pause_schedules(names, paused).await
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        self.act(Call::Schedules, None, |model| model.run(async |store| store.due_schedules(limit).await).0)
            .await
    }

    async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        self.act(Call::Schedules, None, |model| model.advance_schedules(steps)).await
    }
}

#[async_trait]
impl TimingStore for FakeStore {
    async fn measure(&self, timings: &[Timing]) -> Result<()> {
        self.memory.measure(timings).await
    }

    async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        self.memory.timings(request).await
    }

    async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        self.memory.failures(request).await
    }
}

#[async_trait]
impl AuditStore for FakeStore {
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        self.memory.append_audit(entries).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        self.memory.audit(filter).await
    }
}
