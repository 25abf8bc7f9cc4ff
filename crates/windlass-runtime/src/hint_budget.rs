//! How often a worker lets itself be woken.

use tokio::time::Instant;

/// How many sessions of the store the hints of one worker may wake in a second. PostgreSQL wakes every session that LISTENs in
/// the database for each NOTIFY, some 25 us each: beside 200 idle workers, 1,000 jobs a second that came one by one kept two
/// cores busy with nothing else.
const WAKE_UPS_PER_SECOND: f64 = 10_000.0;

/// A bucket of hints that fills with time, for a second at most.
pub(crate) struct HintBudget {
    hints: f64,
    filled_at: Instant,
}

impl HintBudget {
    pub(crate) fn new() -> Self {
        Self { hints: f64::INFINITY, filled_at: Instant::now() }
    }

    pub(crate) fn take(&mut self) {
        self.hints -= 1.0;
    }

    /// Whether no hint is left, where each wakes so many sessions.
    pub(crate) fn is_spent(&mut self, listeners: usize) -> bool {
        let per_second = WAKE_UPS_PER_SECOND / listeners.max(1) as f64;
        let now = Instant::now();
        let filled = self.hints + per_second * (now - self.filled_at).as_secs_f64();
        self.hints = filled.min(per_second.max(1.0));
        self.filled_at = now;
        self.hints < 1.0
    }
}
