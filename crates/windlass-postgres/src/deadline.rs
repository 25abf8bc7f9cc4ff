//! Every call ends: how long it may wait for the server.
//!
//! The kernel notices a dead peer, not a living one that says nothing: a proxy or pooler that lost its other
//! half, a stopped server process. So calls have deadlines of their own.

use std::{future::Future, pin::Pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How much longer a batch may take than a short call: per so many jobs, so long.
const BATCH_ALLOWANCE: (usize, Duration) = (1_000, Duration::from_secs(1));
/// How many times longer than a short call housekeeping and overviews may take: five minutes by default.
const LONG_CALL: u32 = 30;

/// How long a call may take.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// As long as the option says.
    Call,
    /// Longer by the number of jobs that it carries.
    Batch(usize),
    /// What may take minutes on a living server.
    Long,
    /// As long as it takes: migrations.
    Endless,
}

impl Patience {
    pub(crate) fn limit(self, call_timeout: Duration) -> Duration {
        match self {
            Self::Call => call_timeout,
            Self::Batch(jobs) => {
                let (per, allowance) = BATCH_ALLOWANCE;
                let times = u32::try_from(jobs / per).unwrap_or(u32::MAX);
                call_timeout.saturating_add(allowance.saturating_mul(times))
            }
            Self::Long => call_timeout.saturating_mul(LONG_CALL),
            Self::Endless => Duration::MAX,
        }
    }
}

/// When a call must have ended.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// `None`: beyond what the clock can tell.
    at: Option<Instant>,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now().checked_add(limit), limit }
    }

    /// The answer of `call`, or how long it had. Pinned by the caller: each copy of it would be part of the
    /// future of every call.
    pub(crate) async fn await_on<T>(self, call: Pin<&mut impl Future<Output = T>>) -> Result<T, Duration> {
        match self.at {
            Some(at) => timeout_at(at, call).await.map_err(|_| self.limit),
            None => Ok(call.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_batches_and_housekeeping_get_more_time() {
        let call = Duration::from_secs(10);
        let seconds = |patience: Patience| patience.limit(call).as_secs();
        assert_eq!(seconds(Patience::Call), 10);
        assert_eq!(seconds(Patience::Batch(999)), 10);
        assert_eq!(seconds(Patience::Batch(25_000)), 35);
        assert_eq!(seconds(Patience::Long), 300);
        assert_eq!(Patience::Batch(usize::MAX).limit(Duration::MAX), Duration::MAX);
        assert!(Deadline::after(Duration::MAX).at.is_none());
    }
}
