//! How often a worker lets itself be woken.

use tokio::time::Instant;

/// How many sessions of the store the hints of one worker may wake: in a second, and in a burst. PostgreSQL wakes every session
/// that LISTENs in the database for each NOTIFY, some 25 us each: beside 200 idle workers, 1,000 jobs a second that came one by
/// one kept two cores busy with nothing else, and a burst of 10,000 had claims wait for up to 75 ms.
const WAKE_UPS_PER_SECOND: f64 = 5_000.0;
const MOST_WAKE_UPS: f64 = 400.0;

/// A bucket of hints that fills with time.
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
        let listeners = listeners.max(1) as f64;
        let now = Instant::now();
        let filled = self.hints + WAKE_UPS_PER_SECOND / listeners * (now - self.filled_at).as_secs_f64();
        self.hints = filled.min((MOST_WAKE_UPS / listeners).max(1.0));
        self.filled_at = now;
        self.hints < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// How many hints are taken at once after a rest.
    async fn burst(listeners: usize) -> u32 {
        let mut budget = HintBudget::new();
        assert!(!budget.is_spent(listeners));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut hints = 0;
        while !budget.is_spent(listeners) {
            budget.take();
            hints += 1;
        }
        hints
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_wakes_few_sessions() {
        assert_eq!(burst(1).await, 400);
        assert_eq!(burst(200).await, 2);
        assert_eq!(burst(10_000).await, 1, "the first is always announced");
    }
}
