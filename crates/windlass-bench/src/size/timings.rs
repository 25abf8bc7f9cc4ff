use crate::measure::round;
use serde_json::{Value, json};
use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use windlass_cli::measure::Latencies;

/// How long the calls of a worker took, from the call to the answer. That includes the way to the server and back, and the
/// time in which this process had no processor.
#[derive(Clone)]
pub(crate) struct CallTimes {
    pub(crate) claims: Latencies,
    pub(crate) settles: Latencies,
    pub(crate) promotes: Latencies,
    /// The longest claim or settle.
    pub(crate) slowest: Duration,
    /// When the first claim began that handed out a job.
    pub(crate) first_jobs: Option<Instant>,
}

impl CallTimes {
    pub(crate) fn new() -> Self {
        let [claims, settles, promotes] = std::array::from_fn(|_| Latencies::new());
        Self { claims, settles, promotes, slowest: Duration::ZERO, first_jobs: None }
    }

    /// The longest claim or settle, in milliseconds.
    pub(crate) fn slowest_ms(&self) -> f64 {
        round(self.slowest.as_secs_f64() * 1e3)
    }

    /// What a report says of them.
    pub(crate) fn report(&self) -> Value {
        json!({ "claim": self.claims.report(), "settle": self.settles.report(), "slowest_ms": self.slowest_ms() })
    }

    /// Adds those of another round.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.claims.merge(&other.claims);
        self.settles.merge(&other.settles);
        self.promotes.merge(&other.promotes);
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Where the times are gathered.
pub(super) struct Timings(Mutex<CallTimes>);

impl Timings {
    pub(super) fn new() -> Self {
        Self(Mutex::new(CallTimes::new()))
    }

    /// Those since the last time that this was called.
    pub(super) fn take(&self) -> CallTimes {
        std::mem::replace(&mut *self.lock(), CallTimes::new())
    }

    /// When the first claim began that handed out a job.
    pub(super) fn first_jobs(&self) -> Option<Instant> {
        self.lock().first_jobs
    }

    /// Waits for a call, and gives its beginning, its time and its answer to `note`.
    pub(super) async fn time<T>(
        &self,
        call: impl Future<Output = T> + Send,
        note: impl FnOnce(&mut CallTimes, Instant, Duration, &T),
    ) -> T {
        let began = Instant::now();
        let answer = call.await;
        note(&mut self.lock(), began, began.elapsed(), &answer);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, CallTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
