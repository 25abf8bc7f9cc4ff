use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};
use windlass::{SqliteClock, Timestamp};

/// The machine's clock, ahead by as much as a test has moved it. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct MovedClock(Arc<AtomicI64>);

impl MovedClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), SeqCst);
    }

    pub(crate) fn clock(&self) -> SqliteClock {
        let ahead = Arc::clone(&self.0);
        SqliteClock::new(move || {
            let now = Timestamp::now();
            let moved = now.as_microsecond().saturating_add(ahead.load(SeqCst));
            Timestamp::from_microsecond(moved).unwrap_or(now)
        })
    }
}
