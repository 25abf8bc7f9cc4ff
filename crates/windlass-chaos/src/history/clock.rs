use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC_RAW: the same for every process of this machine, never set, never
/// slewed, and not reached by libfaketime, which replaces libc's functions only.
///
/// ```
/// let before = windlass_chaos::history::now_ns();
/// assert!(windlass_chaos::history::now_ns() >= before);
/// ```
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
