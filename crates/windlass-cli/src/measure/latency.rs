use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The longest latency that is told apart from longer ones: an hour, in nanoseconds.
const MAX_NANOS: u64 = 3_600_000_000_000;

/// Measured times.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

/// Their distribution, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyReport {
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
    /// None yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NANOS, 3).expect("constant bounds are valid"))
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(MAX_NANOS);
        self.0.saturating_record(nanos.clamp(1, MAX_NANOS));
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// Their distribution.
    pub fn report(&self) -> LatencyReport {
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
    pub fn text(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_told() {
        let mut latencies = Latencies::new();
        for ms in 1..=100 {
            latencies.record(Duration::from_millis(ms));
        }
        let report = latencies.report();
        assert_eq!(report.samples, 100);
        assert!((report.p50_us - 50_000.0).abs() < 100.0, "{report:?}");
        assert!((report.p90_us - 90_000.0).abs() < 100.0, "{report:?}");
        assert!((report.average_us - 50_500.0).abs() < 100.0, "{report:?}");
        assert!((report.max_us - 100_000.0).abs() < 200.0, "{report:?}");
    }
}
