//! How long jobs waited and ran here, and why attempts failed: measured beside the jobs, and told the store every ten seconds.

use crate::sync::{Mutex, MutexGuard};
use jiff::Timestamp;
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tracing::debug;
use windlass_core::{ClaimedJob, Failure, JobId, Store, Timing};

/// How often the store is told.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);
/// How many queues and kinds it is told apart.
const MOST: usize = Timing::MAX_BATCH - 1;

/// An attempt that is measured, from its start on.
#[derive(Debug)]
pub(crate) struct Begun {
    kind: Arc<str>,
    /// How long the job was available before, if that is known.
    waited: Option<Duration>,
    started: Instant,
    /// As how many attempts it counts.
    times: u32,
}

impl Begun {
    pub(crate) fn new(job: &ClaimedJob, waited: Option<Duration>, started: Instant, times: u32) -> Self {
        Self { kind: Arc::clone(&job.kind), waited, started, times }
    }

    /// It waited until now for somebody who runs it.
    pub(crate) fn starts_now(&mut self) {
        let now = Instant::now();
        let more = now.saturating_duration_since(self.started);
        (self.waited, self.started) = (self.waited.map(|waited| waited + more), now);
    }
}

/// How long a job that starts now was available: until it was claimed by the store's clock, and since then by this process's. `None`: nobody knows since when.
pub(crate) fn waited(
    job: &ClaimedJob,
    claimed_at: Option<Timestamp>,
    asked_at: Instant,
    started: Instant,
) -> Option<Duration> {
    let claimed_at = claimed_at.filter(|_| job.never_put_off)?;
    let before = Duration::try_from(claimed_at.duration_since(job.enqueued_at)).unwrap_or_default();
    Some(before + started.saturating_duration_since(asked_at))
}

/// By queue and kind.
type Measured = HashMap<Arc<str>, HashMap<Arc<str>, Timing>>;

/// What was measured since the store was last told.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Measured>);

impl Meter {
    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempt is over.
    pub(crate) fn note(&self, queue: &Arc<str>, begun: &Begun) {
        let (ran, times) = (begun.started.elapsed(), begun.times.into());
        self.change(queue, &begun.kind, |timing| {
            timing.run.add(ran, times);
            if let Some(waited) = begun.waited {
                timing.wait.add(waited, times);
            }
        });
    }

    /// An attempt failed with this error.
    pub(crate) fn note_failure(&self, queue: &Arc<str>, kind: &Arc<str>, job: JobId, error: &str) {
        let mut failed = Timing::new("", "");
        failed.failures.push(Failure::new(kind, job, error));
        self.change(queue, kind, |timing| {
            timing.merge(&failed);
            timing.bound_failures();
        });
    }

    fn change(&self, queue: &Arc<str>, kind: &Arc<str>, change: impl FnOnce(&mut Timing)) {
        let mut queues = self.lock();
        if let Some(timing) = queues.get_mut(queue).and_then(|kinds| kinds.get_mut(kind)) {
            return change(timing);
        }
        let kinds = queues.entry(Arc::clone(queue)).or_default();
        change(kinds.entry(Arc::clone(kind)).or_insert_with(|| Timing::new(&**queue, &**kind)));
    }

    /// What was measured since the last call.
    pub(crate) fn take(&self) -> Vec<Timing> {
        let queues = std::mem::take(&mut *self.lock());
        Timing::bounded(queues.into_values().flat_map(HashMap::into_values).collect(), MOST)
    }

    /// Tells the store what was measured. What it does not take is lost: nothing depends on it, and a call may have been counted whose answer was not heard.
    pub(crate) async fn send(&self, store: &dyn Store) {
        tell(store, self.take()).await;
    }
}

/// Tells the store what was [taken](Meter::take).
pub(crate) async fn tell(store: &dyn Store, timings: Vec<Timing>) {
    if !timings.is_empty()
        && let Err(error) = store.measure(&timings).await
    {
        debug!(%error, "the store did not take the timings of the last seconds; they are lost");
    }
}
