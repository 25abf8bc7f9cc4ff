//! What the options of several cases have in common.

/// The queue of every case.
pub(crate) const QUEUE: &str = "windlass-bench";
/// Whose the schedules of a case are.
pub(crate) const SOURCE: &str = "windlass-bench";
/// The most jobs of a case; each takes a byte.
pub(crate) const MAX_JOBS: u64 = windlass_cli::measure::MAX_JOBS;
/// The most jobs that one worker runs at once.
pub(crate) const MAX_CONCURRENCY: i64 = windlass::WorkerConfig::MAX_CONCURRENCY as i64;
/// The most text that a job carries: a little less than a store takes by default.
pub(crate) const MAX_PAYLOAD: u64 = 1_000_000;

/// How many jobs that carry so many bytes are enqueued in one call.
pub(crate) fn batch_of(payload: u64) -> u64 {
    const MOST: u64 = 10_000;
    const BYTES: u64 = 8 << 20;
    (BYTES / (payload + 1)).clamp(1, MOST)
}
