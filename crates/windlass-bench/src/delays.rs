use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use windlass::Timestamp;
use windlass_cli::measure::Latencies;

/// How many histograms handlers share: more than one, so that they seldom wait for each other.
const SHARDS: usize = 4;

/// How long after their time the handlers of jobs that know their time started.
pub(crate) struct Delays {
    shards: [Mutex<Latencies>; SHARDS],
    early: AtomicU64,
}

impl Delays {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(Latencies::new())), early: AtomicU64::new(0) }
    }

    /// The handler of a job starts so long after its time. `number` spreads the callers.
    pub(crate) fn record(&self, number: u64, delay: Duration) {
        let shard = &self.shards[(number % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner).record(delay);
    }

    /// The handler of a job starts now that was due at a time of the wall clock, in microseconds since 1970.
    pub(crate) fn record_due(&self, number: u64, due_us: i64) {
        let late = Timestamp::now().as_microsecond() - due_us;
        if late < 0 {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        self.record(number, Duration::from_micros(late.max(0) as u64));
    }

    /// All of them.
    pub(crate) fn sum(&self) -> Latencies {
        let mut sum = Latencies::new();
        for shard in &self.shards {
            sum.merge(&shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// How many jobs started before they were due.
    pub(crate) fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_are_summed_and_early_starts_are_counted() {
        let delays = Delays::new();
        for ms in 1..=100 {
            delays.record(ms, Duration::from_millis(ms));
        }
        delays.record_due(0, Timestamp::now().as_microsecond() + 60_000_000);
        let report = serde_json::to_value(delays.sum().report()).unwrap();
        assert_eq!((&report["samples"], delays.early()), (&101.into(), 1));
        assert!((report["max_us"].as_f64().unwrap() - 100_000.0).abs() < 200.0, "{report}");
    }
}
