use crate::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError},
};
use tokio_util::sync::CancellationToken;
use windlass_core::JobId;

/// What tells the handler of one job to stop, apart from all others. Jobs whose handler neither waits nor asks have
/// none; they share the token of their epoch.
#[derive(Debug)]
pub(crate) struct JobSwitch {
    /// Fires when the epoch's does, too.
    pub(crate) token: CancellationToken,
    /// Set when the handler has to end now: the error that its attempt fails with.
    pub(crate) expired: OnceLock<String>,
    cancel_asked: AtomicBool,
}

impl JobSwitch {
    fn new(epoch: &CancellationToken) -> Self {
        Self { token: epoch.child_token(), expired: OnceLock::new(), cancel_asked: AtomicBool::new(false) }
    }

    /// Whether somebody wants the job cancelled.
    pub(crate) fn is_cancel_asked(&self) -> bool {
        self.cancel_asked.load(Ordering::Acquire)
    }
}

/// The switches of the jobs of one claim, made when they are first needed. A claim that needs none pays one load per job.
#[derive(Debug, Default)]
pub(crate) struct JobSwitches {
    is_used: AtomicBool,
    by_job: Mutex<HashMap<JobId, Arc<JobSwitch>>>,
}

impl JobSwitches {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<JobSwitch>>> {
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The switch of this job; makes it as a child of the epoch's token.
    pub(crate) fn of(&self, job: JobId, epoch: &CancellationToken) -> Arc<JobSwitch> {
        self.is_used.store(true, Ordering::Release);
        Arc::clone(self.lock().entry(job).or_insert_with(|| Arc::new(JobSwitch::new(epoch))))
    }

    /// The switch of this job, if it has one.
    pub(crate) fn find(&self, job: JobId) -> Option<Arc<JobSwitch>> {
        let found = || self.lock().get(&job).cloned();
        if self.is_used.load(Ordering::Acquire) { found() } else { None }
    }

    /// Tells the job's handler to stop because the job is to be cancelled; one that is not started will not be.
    pub(crate) fn cancel(&self, job: JobId, epoch: &CancellationToken) {
        let switch = self.of(job, epoch);
        switch.cancel_asked.store(true, Ordering::Release);
        switch.token.cancel();
    }

    /// Whether the job is to be cancelled.
    pub(crate) fn is_cancel_asked(&self, job: JobId) -> bool {
        self.find(job).is_some_and(|switch| switch.is_cancel_asked())
    }

    /// The job's attempt is over.
    pub(crate) fn forget(&self, job: JobId) {
        if self.is_used.load(Ordering::Acquire) {
            self.lock().remove(&job);
        }
    }
}
