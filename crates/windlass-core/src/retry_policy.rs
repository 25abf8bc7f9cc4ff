use std::time::Duration;

/// When a failed job is tried again: exponential backoff with jitter.
///
/// The delay before attempt n+1 is `base * factor^(n-1)`, at most `max`, then spread by `± jitter`.
/// The defaults (15 s, doubling, at most a day, ± 10 %) try a job 20 times in about ten days, like the
/// schedules of Sidekiq and Oban.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::RetryPolicy;
/// let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
/// assert_eq!(policy.delay(1, 0.5), Duration::from_secs(15));
/// assert_eq!(policy.delay(3, 0.5), Duration::from_secs(60));
/// assert_eq!(policy.delay(1000, 0.5), Duration::from_secs(86_400));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The delay after the first failure.
    pub base: Duration,
    /// The growth from one failure to the next; below 1 counts as 1.
    pub factor: f64,
    /// The longest delay before jitter.
    pub max: Duration,
    /// The spread as a part of the delay: 0.1 means ± 10 %. Kept within 0 and 1.
    pub jitter: f64,
}

impl RetryPolicy {
    /// The delay after failed attempt number `attempt` (from 1). `random` in 0..1 picks the jitter, so
    /// that tests and simulations decide it.
    pub fn delay(&self, attempt: u16, random: f64) -> Duration {
        let exponent = i32::from(attempt.max(1)) - 1;
        let seconds = self.base.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        let capped = seconds.min(self.max.as_secs_f64());
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * (2.0 * random - 1.0);
        Duration::try_from_secs_f64(capped * spread).unwrap_or(self.max)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base: Duration::from_secs(15), factor: 2.0, max: Duration::from_secs(86_400), jitter: 0.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_its_band() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, 0.0), Duration::from_secs_f64(13.5));
        assert!(policy.delay(1, 0.999_999) < Duration::from_secs_f64(16.5));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let policy = RetryPolicy { base: Duration::MAX, factor: f64::MAX, max: Duration::MAX, jitter: 1.0 };
        assert_eq!(policy.delay(u16::MAX, 1.0), Duration::MAX);
    }
}
