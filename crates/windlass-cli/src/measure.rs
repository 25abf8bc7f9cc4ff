//! What demo and bench measure: time, processor, memory, latency, and what the database server spent.

mod gauge;
mod latency;
mod machine;
mod resources;
mod server_cpu;
mod snapshot;
mod tally;
mod timeline;

pub(crate) use gauge::{Counters, ServerGauge, connect};
pub(crate) use latency::{Latencies, LatencyReport, SharedLatencies};
pub(crate) use machine::Machine;
pub(crate) use resources::{cpu_seconds, forget_peak_memory, peak_memory};
pub(crate) use snapshot::HeldSnapshot;
pub(crate) use tally::{Faults, MAX_JOBS, Tally};
pub(crate) use timeline::Timeline;

use std::time::Duration;

/// Jobs per second, rounded as far as a measurement means anything.
pub(crate) fn per_second(count: u64, elapsed: Duration) -> u64 {
    (count as f64 / elapsed.as_secs_f64().max(1e-9)).round() as u64
}

/// Three digits after the point.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
