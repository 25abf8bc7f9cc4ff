use hdrhistogram::Histogram;
use serde::Serialize;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The longest latency that is told apart from longer ones: an hour, in nanoseconds.
const MAX_NANOS: u64 = 3_600_000_000_000;
/// How many histograms handlers share: more than one, so that they seldom wait for each other.
const SHARDS: usize = 4;

/// Measured times.
#[derive(Clone)]
pub(crate) struct Latencies(Histogram<u64>);

/// Their distribution, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatencyReport {
    samples: u64,
    average_us: f64,
    p50_us: f64,
    p90_us: f64,
    p95_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NANOS, 3).expect("constant bounds are valid"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(MAX_NANOS);
        self.0.saturating_record(nanos.clamp(1, MAX_NANOS));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(crate) fn report(&self) -> LatencyReport {
        let us = |nanos: f64| (nanos / 100.0).round() / 10.0;
        let at = |quantile| us(self.0.value_at_quantile(quantile) as f64);
        LatencyReport {
            samples: self.0.len(),
            average_us: us(self.0.mean()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(self.0.max() as f64),
        }
    }
}

impl LatencyReport {
    /// One line for people, in milliseconds.
    pub(crate) fn text(&self) -> String {
        let ms = |us: f64| us / 1e3;
        format!(
            "average {:.2} ms, p50 {:.2}, p90 {:.2}, p95 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2} ({} samples)",
            ms(self.average_us),
            ms(self.p50_us),
            ms(self.p90_us),
            ms(self.p95_us),
            ms(self.p99_us),
            ms(self.p999_us),
            ms(self.max_us),
            self.samples
        )
    }
}

/// Times that many handlers measure at once.
pub(crate) struct SharedLatencies([Mutex<Latencies>; SHARDS]);

impl SharedLatencies {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(Latencies::new())))
    }

    /// `number` spreads the callers.
    pub(crate) fn record(&self, number: u64, latency: Duration) {
        let shard = &self.0[(number % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner).record(latency);
    }

    pub(crate) fn sum(&self) -> Latencies {
        let mut sum = Latencies::new();
        for shard in &self.0 {
            sum.merge(&shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_told() {
        let shared = SharedLatencies::new();
        for ms in 1..=100 {
            shared.record(ms, Duration::from_millis(ms));
        }
        let report = shared.sum().report();
        assert_eq!(report.samples, 100);
        assert!((report.p50_us - 50_000.0).abs() < 100.0, "{report:?}");
        assert!((report.p90_us - 90_000.0).abs() < 100.0, "{report:?}");
        assert!((report.average_us - 50_500.0).abs() < 100.0, "{report:?}");
        assert!((report.max_us - 100_000.0).abs() < 200.0, "{report:?}");
    }
}
