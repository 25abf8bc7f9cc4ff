use jiff::{SignedDuration, Timestamp};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The time of a store. It runs with tokio's clock, so a paused runtime pauses it, and can be moved by hand.
#[derive(Clone, Debug)]
pub struct Clock {
    began: Instant,
    /// What the clock said when it began, and how far it was moved since.
    base: Arc<Mutex<Timestamp>>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), base: Arc::new(Mutex::new(Timestamp::now())) }
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        later(base, self.began.elapsed())
    }

    /// Moves the clock on, so that leases end and scheduled jobs are due.
    pub fn advance(&self, by: Duration) {
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        *base = later(*base, by);
    }
}

/// `at` and so much more, to the microsecond as other stores keep it, and never beyond what a timestamp can say.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    let sum = at.checked_add(by).unwrap_or(Timestamp::MAX);
    Timestamp::from_microsecond(sum.as_microsecond()).unwrap_or(Timestamp::MAX)
}

/// `at` and so much less.
pub(crate) fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// How long until `at`; nothing when it is past.
pub(crate) fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}
