//! The store's clock: the wall clock of the machine, read in one place, in microseconds.
//!
//! SQLite has no server whose clock could be asked. Every lease and schedule decision reads the time here,
//! once per transaction, on the thread that writes.

use jiff::Timestamp;
use std::{fmt, sync::Arc, time::Duration};
use windlass_core::Limits;

/// Microseconds since 1970 by the store's clock.
pub(crate) type Micros = i64;

/// The source of time of a store; tests put their own in its place.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now` each time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Micros {
        (self.0)().as_microsecond()
    }
}

impl Default for Clock {
    /// The machine's wall clock.
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A span as microseconds, at most the longest delay that Windlass knows.
pub(crate) fn micros(span: Duration) -> Micros {
    i64::try_from(span.min(Limits::LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// How long until then; zero when that is past.
pub(crate) fn until(at: Micros, now: Micros) -> Duration {
    Duration::from_micros(at.saturating_sub(now).max(0).unsigned_abs())
}

/// A stored time. Out of range only in a damaged file; shown as 1970 then.
pub(crate) fn timestamp(at: Micros) -> Timestamp {
    Timestamp::from_microsecond(at).unwrap_or(Timestamp::UNIX_EPOCH)
}
