//! The store's calls, each as one statement or a few on a connection of the caller's, inside the transaction that is open there.
//!
//! For the project's own tests, which step several sessions through their transactions; no part of the interface.
#![allow(missing_docs)] // each is what `JobStore` says of its name

use crate::{
    append::append,
    batch::Batch,
    claim::claim_on,
    control::{CANCEL, RETRY},
    database::Database,
    edit::{DELETE, edit_on},
    keys::limit_on as limit_keys_on,
    lane::lanes_in,
    limits::{limit_on, share_on},
    maintain::step_on,
    new_row::expires_by_database,
    once::store_once,
    promote::promote_on,
    record::job_on,
    report::{checkpoints_on, report_on},
    schedules::{advance_on, declare_on, list_on, pause_on},
    settings::change_on,
    settle::settle_on,
    store::PostgresStore,
    transaction::complete_on,
    unique::{put, store_unique},
    unique_single::{UniqueSingle, put_on},
    worker::{cancel_requests_on, end_worker_on, heartbeat_on, register_on, suspect_on},
};
use tokio_postgres::Client;
use windlass_core::{
    Args, CancelReply, ClaimRequest, Claimed, DeleteReply, EditReply, EnqueuedOnce, EnqueuedUnique, JobEdit,
    JobId, JobLease, JobRecord, KeyLimitsChange, Load, MaintainReport, NewJob, Promoted, QueueLimits,
    ReportRequest, Reported, Result, RetryReply, Schedule, ScheduleFilter, ScheduleRecord, ScheduleStep,
    Settings, SettingsChange, SettleReply, SettleRequest, Share, ShareRequest, UniqueBatch, WorkerId,
    WorkerSpec,
};

/// A store's calls on one connection.
pub struct Calls<'a> {
    db: &'a Database,
    client: &'a Client,
}

impl<'a> Calls<'a> {
    pub fn new(store: &'a PostgresStore, client: &'a Client) -> Self {
        Self { db: &store.db, client }
    }

    pub async fn enqueue(&self, segment: usize, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let lanes = lanes_in(self.db, self.client, jobs).await?;
        append(self.db, self.client, &Batch { segment, lanes, jobs, prepared: None }).await
    }

    pub async fn enqueue_once(&self, segment: usize, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        store_once(self.db, self.client, key, jobs, segment, None).await
    }

    /// As the store does it: one job in one statement, more in several.
    pub async fn enqueue_unique(&self, segment: usize, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        let batch = UniqueBatch::of(jobs)?;
        let lanes = lanes_in(self.db, self.client, &batch.jobs).await?;
        let stored = match (&*batch.jobs, &*batch.keys) {
            ([job], [Some(key)]) if !expires_by_database(job) => {
                vec![put(self.db, self.client, job, *key, lanes[0]).await?]
            }
            _ => store_unique(self.db, self.client, &batch, segment, Some(lanes)).await?,
        };
        Ok(batch.replies(&stored))
    }

    /// As the store does it for several callers, each with one job and all with other keys.
    pub async fn enqueue_unique_singles(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        let mut singles = Vec::new();
        for job in jobs {
            let batch = UniqueBatch::of(std::slice::from_ref(job))?;
            singles.extend(UniqueSingle::of(batch));
        }
        let lanes = lanes_in(self.db, self.client, jobs).await?;
        put_on(self.db, self.client, &singles.iter().collect::<Vec<_>>(), &lanes).await
    }

    pub async fn register(&self, worker: &WorkerSpec) -> Result<WorkerId> {
        register_on(self.db, self.client, worker).await
    }

    pub async fn heartbeat(&self, worker: WorkerId) -> Result<Vec<JobId>> {
        heartbeat_on(self.db, self.client, worker, None, Load::default()).await?;
        cancel_requests_on(self.db, self.client, worker).await
    }

    /// A clean end, or if it `crashed`, only one after its lease. Whether there was a worker to end.
    pub async fn end_worker(&self, worker: WorkerId, crashed: bool) -> Result<bool> {
        end_worker_on(self.db, self.client, worker, crashed).await
    }

    /// Not counted, as by a worker whose heartbeats do not tell what it holds.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        claim_on(self.db, self.client, request, i64::MAX).await
    }

    pub async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        settle_on(self.db, self.client, request).await
    }

    pub async fn complete(&self, lease: JobLease) -> Result<()> {
        complete_on(self.db, self.client, lease).await
    }

    pub async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        suspect_on(self.db, self.client, worker, job).await
    }

    /// From the beginning.
    pub async fn promote(&self, limit: u32) -> Result<Promoted> {
        Ok(promote_on(self.db, self.client, limit, None).await?.0)
    }

    /// One step of emptying segments.
    pub async fn maintain(&self) -> Result<MaintainReport> {
        let mut report = MaintainReport::default();
        step_on(self.db, self.client, &mut report).await?;
        Ok(report)
    }

    pub async fn configure(&self, settings: &Settings) -> Result<()> {
        change_on(self.db, self.client, &SettingsChange::from(*settings)).await
    }

    pub async fn cancel(&self, id: JobId) -> Result<CancelReply> {
        CANCEL.one_on(self.db, self.client, id, &[]).await
    }

    pub async fn retry(&self, id: JobId) -> Result<RetryReply> {
        RETRY.one_on(self.db, self.client, id, &[]).await
    }

    pub async fn edit(&self, id: JobId, edit: &JobEdit) -> Result<EditReply> {
        edit_on(self.db, self.client, id, edit).await
    }

    pub async fn delete(&self, id: JobId) -> Result<DeleteReply> {
        DELETE.one_on(self.db, self.client, id, &[]).await
    }

    pub async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        report_on(self.db, self.client, request).await
    }

    pub async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
        checkpoints_on(self.db, self.client, ids).await
    }

    pub async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        limit_on(self.db, self.client, queue, limits).await
    }

    /// Without what follows when limits are taken away: that claims do.
    pub async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        limit_keys_on(self.db, self.client, queue, change).await
    }

    pub async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
        share_on(self.db, self.client, request).await
    }

    pub async fn put_schedule(&self, schedule: &Schedule) -> Result<()> {
        declare_on(self.db, self.client, std::slice::from_ref(schedule), None).await.map(drop)
    }

    pub async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        list_on(self.db, self.client, filter).await
    }

    pub async fn pause_schedules(&self, names: &[String], paused: bool) -> Result<Vec<bool>> {
        pause_on(self.db, self.client, names, paused).await
    }

    pub async fn advance_schedules(&self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        advance_on(self.db, self.client, steps).await
    }

    /// Without the errors of its attempts.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        job_on(self.db, self.client, id).await
    }
}
