//! Enqueueing and working numbered jobs, and measuring that: what `demo` and the benchmark harness share.

mod counts;
mod fill;
mod latency;
mod measured_store;
mod ping;
mod resources;
mod tally;
mod workers;

pub use counts::{Counts, Noop};
pub use fill::{Fill, Filled, fill};
pub use latency::{Latencies, LatencyReport};
pub use measured_store::{MeasuredStore, counts};
pub use ping::{Ping, PingStarts, SAMPLE_TIMEOUT, never_started, ping};
pub use resources::{cpu_seconds, peak_memory};
pub use tally::{Faults, MAX_JOBS, Tally};
pub use workers::{CountedWorkers, Expected, STALL};

use std::time::Duration;

/// Jobs per second, rounded as far as a measurement means anything.
pub fn per_second(count: u64, elapsed: Duration) -> u64 {
    (count as f64 / elapsed.as_secs_f64().max(1e-9)).round() as u64
}
