//! What demo and bench measure: time, processor, memory, latency, WAL.

mod latency;
mod resources;
mod tally;
mod wal;

pub(crate) use latency::{Latencies, LatencyReport};
pub(crate) use resources::{cpu_seconds, peak_memory};
pub(crate) use tally::Tally;
pub(crate) use wal::{HeldSnapshot, WalGauge};

use std::time::Duration;

/// Jobs per second, rounded as far as a measurement means anything.
pub(crate) fn per_second(count: u64, elapsed: Duration) -> u64 {
    (count as f64 / elapsed.as_secs_f64().max(1e-9)).round() as u64
}
