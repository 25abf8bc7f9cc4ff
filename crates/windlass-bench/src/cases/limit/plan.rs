use std::time::Duration;

/// What is measured.
pub(super) struct Plan {
    /// How many rows.
    pub(super) rows: u64,
    /// How long commits are counted.
    pub(super) commits_for: Duration,
}

/// The columns of a job, as both databases know them.
pub(super) const COLUMNS: &str = "id bigint, enqueued_at bigint, lane_id integer, segment smallint, attempt smallint, \
                       max_attempts smallint, crash_count smallint, xid bigint";
/// The kind of each job.
pub(super) const KIND: &str = "windlass.noop";
/// Rows of one transaction.
pub(super) const BATCH: u64 = 10_000;
/// How often writing and reading are repeated. The best counts: a limit is what nothing disturbed.
pub(super) const ROUNDS: usize = 3;

/// What was measured.
pub(super) struct Times {
    pub(super) write: Duration,
    pub(super) read: Duration,
    /// Commits of one row each, by 1 and by 10 connections.
    pub(super) commits: [u64; 2],
}

/// How many connections commit.
pub(super) const CLIENTS: [usize; 2] = [1, 10];
