use crate::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};
use windlass_core::JobId;

/// What only some jobs of a claim have, made when it is first needed. A claim that needs none pays one load per job.
#[derive(Debug)]
pub(crate) struct PerJob<T> {
    is_used: AtomicBool,
    by_job: Mutex<HashMap<JobId, Arc<T>>>,
}

impl<T> Default for PerJob<T> {
    fn default() -> Self {
        Self { is_used: AtomicBool::new(false), by_job: Mutex::default() }
    }
}

impl<T> PerJob<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<T>>> {
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of this job.
    pub(crate) fn get_or_make(&self, job: JobId, make: impl FnOnce() -> T) -> Arc<T> {
        self.is_used.store(true, Ordering::Release);
        Arc::clone(self.lock().entry(job).or_insert_with(|| Arc::new(make())))
    }

    /// That of this job, if it has one.
    pub(crate) fn find(&self, job: JobId) -> Option<Arc<T>> {
        let found = || self.lock().get(&job).cloned();
        if self.is_used.load(Ordering::Acquire) { found() } else { None }
    }

    /// Those of all jobs that have one.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.lock().values().cloned().collect()
    }

    /// The job's attempt is over. What it had, if anything.
    pub(crate) fn remove(&self, job: JobId) -> Option<Arc<T>> {
        let remove = || self.lock().remove(&job);
        if self.is_used.load(Ordering::Acquire) { remove() } else { None }
    }
}
