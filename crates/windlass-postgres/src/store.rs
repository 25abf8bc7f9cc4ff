use crate::{
    claim, control,
    database::Database,
    edit,
    ends::{self, PostgresEnds},
    enqueue, events,
    group_commit::GroupCommit,
    history, keys, leader, limits, list, maintain, migrate, once,
    options::PostgresOptions,
    promote, record, report, retention, settings, settle,
    statement::Placed,
    stats, unique,
    unique_single::UniqueSingle,
    wakeup::PostgresWakeup,
    worker,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, CancelReply, Capabilities, ClaimRequest, Claimed, Coming, DeleteReply, EditReply, Ended, Ends,
    EnqueuedOnce, EnqueuedUnique, EventPage, EventRequest, Heartbeat, History, HistoryRequest, JobEdit,
    JobFilter, JobId, JobPage, JobRecord, JobState, JobStore, KeyLimits, KeyLimitsChange, Leader, Limits,
    Load, MaintainReport, MigrationReport, NewJob, Promoted, QueueFilter, QueueLimits, QueueStats,
    Registration, ReportRequest, Reported, RescueReport, Result, RetentionRule, RetryReply, Settings,
    SettingsChange, SettleReply, SettleRequest, Share, ShareRequest, Store, StoreStatus, UniqueBatch, Wakeup,
    WorkerId, WorkerSpec,
};

/// Jobs in a PostgreSQL database. Cheap to clone, clones are the same store; connections open when they are
/// needed.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) db: Database,
    pub(crate) limits: Limits,
    group_commit: GroupCommit<Placed>,
    unique_group_commit: GroupCommit<UniqueSingle>,
}

impl PostgresStore {
    /// Reads the URL, connects once, and checks the schema when there is one. A missing schema is not an
    /// error here, so that [`migrate`](JobStore::migrate) can create it.
    ///
    /// After a restore from a dump into another cluster the unfinished jobs are made available again
    /// under the new cluster's transaction ids, before this returns.
    ///
    /// # Errors
    /// `invalid_option` for a malformed URL, `invalid_name` for a bad schema name, `unavailable` when
    /// the server does not answer, `permission_denied`, `schema_too_new`.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        let (options, server) = options.read_url(url)?;
        let db = Database::new(server, &options)?;
        if options.migrate {
            Box::pin(migrate::upgrade(&db)).await?;
        }
        migrate::check(&db).await?;
        let (group_commit, unique_group_commit) =
            (GroupCommit::new(db.clone()), GroupCommit::new(db.clone()));
        Ok(Self { group_commit, unique_group_commit, limits: options.limits, db })
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.transactions = true;
        capabilities.concurrent_writers = true;
        capabilities.keys = true;
        capabilities
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        migrate::migrate(&self.db).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        if UniqueBatch::is_needed(jobs) {
            return Ok(self.enqueue_unique(jobs).await?.iter().map(|stored| stored.id).collect());
        }
        self.limits.check(jobs)?;
        enqueue::enqueue(&self.db, &self.group_commit, jobs).await
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        Limits::check_idempotency_key(key)?;
        self.limits.check(jobs)?;
        UniqueBatch::refuse_under_idempotency_key(jobs)?;
        once::enqueue_once(&self.db, key, jobs).await
    }

    async fn enqueue_unique(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        self.limits.check(jobs)?;
        let batch = UniqueBatch::of(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        match UniqueSingle::of(batch) {
            Ok(single) => Ok(single.replies(self.unique_group_commit.enqueue(&single).await?)),
            Err(batch) => Ok(batch.replies(&unique::enqueue_unique(&self.db, &batch).await?)),
        }
    }

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        worker::register(&self.db, worker).await
    }

    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        worker::heartbeat(&self.db, worker, load).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        worker::deregister(&self.db, worker).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        claim::claim(&self.db, request).await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        settle::settle(&self.db, request).await
    }

    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        request.check()?;
        report::report(&self.db, request).await
    }

    async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
        report::checkpoints(&self.db, ids).await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        worker::suspect(&self.db, worker, job).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        worker::rescue(&self.db, rescuer).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        promote::promote(&self.db, limit).await
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        maintain::maintain(&self.db).await
    }

    async fn settings(&self) -> Result<Settings> {
        settings::settings(&self.db).await
    }

    async fn change_settings(&self, change: &SettingsChange) -> Result<()> {
        settings::change(&self.db, change).await
    }

    async fn retention(&self) -> Result<Vec<RetentionRule>> {
        retention::retention(&self.db).await
    }

    async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        retention::set(&self.db, rules).await
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        control::CANCEL.each(&self.db, ids, &[]).await
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        control::RETRY.each(&self.db, ids, &[]).await
    }

    async fn edit(&self, ids: &[JobId], change: &JobEdit) -> Result<Vec<EditReply>> {
        change.check(&self.limits)?;
        edit::edit(&self.db, ids, change).await
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        edit::DELETE.each(&self.db, ids, &[]).await
    }

    fn without_patience(&self) -> Option<Arc<dyn Store>> {
        let db = Database { is_patient: false, ..self.db.clone() };
        Some(Arc::new(Self { db, ..self.clone() }))
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        control::pause(&self.db, queue, paused).await
    }

    async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        worker::drain(&self.db, worker).await
    }

    async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        limits::limit(&self.db, queue, limits).await
    }

    async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        keys::limit(&self.db, queue, change).await
    }

    async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        keys::limits(&self.db, queue).await
    }

    async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
        limits::share(&self.db, request).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        record::job(&self.db, id).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        list::jobs(&self.db, filter).await
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        stats::any_available(&self.db, queues, kinds).await
    }

    async fn coming(&self, queues: &[String]) -> Result<Coming> {
        stats::coming(&self.db, queues).await
    }

    async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
        filter.check()?;
        stats::queues(&self.db, filter).await
    }

    async fn history(&self, request: &HistoryRequest) -> Result<History> {
        history::history(&self.db, request).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        stats::status(&self.db).await
    }

    async fn states(&self, ids: &[JobId]) -> Result<Vec<Option<JobState>>> {
        record::states(&self.db, ids).await
    }

    async fn ended(&self, ids: &[JobId]) -> Result<Ended> {
        ends::ended(&self.db, ids).await
    }

    fn ends(&self) -> Option<Box<dyn Ends>> {
        PostgresEnds::start(&self.db).map(|ends| Box::new(ends) as _)
    }

    async fn events(&self, request: &EventRequest) -> Result<EventPage> {
        events::events(&self.db, request).await
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(PostgresWakeup::start(&self.db))
    }

    async fn close(&self) {
        self.db.pools.close();
    }
}

#[async_trait]
impl Leader for PostgresStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        leader::lead(&self.db, worker, term).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        leader::resign(&self.db, worker).await
    }
}
