use crate::{
    job_reporter::{JobReporter, too_late},
    sync::Mutex,
};
use jiff::Timestamp;
use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, oneshot};
use windlass_core::{Args, HandlerReport, JobId, Result, Store};

/// How long the result of a job waits until the store has what its handler said last. Longer only where the store does not
/// answer, and then settling waits as well; once the job is settled nothing more is taken of it.
pub(crate) const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);

/// Where what handlers say goes. One for a worker.
pub(crate) enum Destination {
    /// Sent by the reporter.
    Store {
        store: Arc<dyn Store>,
        /// Something stands in an outbox.
        listed: Notify,
        /// Somebody waits for it.
        urgent: Notify,
    },
    /// Kept here, at once, for a handler that runs by itself.
    Memory(Mutex<HandlerReport>),
}

impl Destination {
    pub(crate) fn store(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::Store { store, listed: Notify::new(), urgent: Notify::new() })
    }

    /// The last checkpoint of a job.
    pub(crate) async fn checkpoint(&self, job: JobId) -> Result<Option<Args>> {
        match self {
            Self::Store { store, .. } => Ok(store.checkpoints(&[job]).await?.pop().flatten()),
            Self::Memory(kept) => Ok(kept.lock().unwrap_or_else(PoisonError::into_inner).checkpoint.clone()),
        }
    }
}

impl Default for Destination {
    fn default() -> Self {
        Self::Memory(Mutex::new(HandlerReport::new(Timestamp::now())))
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").finish_non_exhaustive()
    }
}

/// The jobs of one epoch of which something is to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    destination: Arc<Destination>,
    /// `None`: the store takes nothing more under this epoch.
    listed: Mutex<Option<Vec<Arc<JobReporter>>>>,
}

impl Outbox {
    pub(crate) fn new(destination: Arc<Destination>) -> Self {
        Self { destination, listed: Mutex::new(Some(Vec::new())) }
    }

    pub(crate) fn destination(&self) -> &Arc<Destination> {
        &self.destination
    }

    /// Something is to be sent of this job.
    pub(crate) fn list(&self, job: &Arc<JobReporter>) {
        match &*self.destination {
            Destination::Store { listed: news, .. } => {
                let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(jobs) = listed.as_mut() else {
                    drop(listed);
                    return job.refuse();
                };
                jobs.push(Arc::clone(job));
                news.notify_one();
            }
            Destination::Memory(kept) => {
                if let Some(report) = job.take() {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).add(&report, Timestamp::now());
                    job.done(|| Ok(()));
                }
            }
        }
    }

    /// Somebody waits for what is listed.
    pub(crate) fn hurry(&self) {
        if let Destination::Store { urgent, .. } = &*self.destination {
            urgent.notify_one();
        }
    }

    /// What is listed now.
    pub(crate) fn take(&self) -> Vec<Arc<JobReporter>> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.as_ref().is_none_or(Vec::is_empty)
    }

    /// The store takes nothing more under this epoch: who waits is told.
    pub(crate) fn close(&self) {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        listed.into_iter().flatten().for_each(|job| job.refuse());
    }
}

/// Waits until the store has what was said; a waiter that is gone without a word gave up.
pub(crate) async fn told(job: JobId, stored: oneshot::Receiver<Result<()>>) -> Result<()> {
    stored.await.unwrap_or_else(|_| Err(too_late(job)))
}
