//! Times and spans as the SQL functions take them.

use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Limits, When};

/// When a job becomes available: a time, or a delay by the database's clock, in microseconds. Neither: at once.
pub(crate) fn schedule(when: When) -> (Option<Timestamp>, Option<i64>) {
    match when {
        When::At(at) => (Some(storable(at)), None),
        When::After(delay) => (None, Some(microseconds(delay))),
        _ => (None, None),
    }
}

/// What is past is past; PostgreSQL knows no years before 4713 BC.
pub(crate) fn storable(at: Timestamp) -> Timestamp {
    at.max(Timestamp::UNIX_EPOCH)
}

/// A span in microseconds: at most the longest, and at least 1 where there is any.
pub(crate) fn microseconds(span: Duration) -> i64 {
    let microseconds = span.min(Limits::LONGEST).as_nanos().div_ceil(1_000);
    i64::try_from(microseconds).unwrap_or(i64::MAX)
}
