use crate::millis;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How the delay grows from one failed attempt to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backoff {
    /// It stays as it is: `base`.
    Fixed,
    /// It grows by the same step: `base * n`.
    Linear,
    /// It multiplies: `base * factor^(n-1)`. What an older program takes a newer kind of backoff for.
    #[default]
    #[serde(other)]
    Exponential,
}

/// When a failed job is tried again: backoff with jitter.
///
/// The delay before attempt n+1 is what [`Self::backoff`] says, at most `max`, then spread by `± jitter`.
/// The defaults (exponential: 15 s, doubling, at most a day, ± 10 %) try a job 20 times in about a week.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::RetryPolicy;
/// let delays = |policy: RetryPolicy| [1, 2, 3, 1000].map(|attempt| policy.delay(attempt, 0.5).as_secs());
/// assert_eq!(delays(RetryPolicy::default()), [15, 30, 60, 86_400]);
/// assert_eq!(delays(RetryPolicy::linear(Duration::from_secs(10))), [10, 20, 30, 10_000]);
/// assert_eq!(delays(RetryPolicy::fixed(Duration::from_secs(7))), [7, 7, 7, 7]);
/// let capped = RetryPolicy { max: Duration::from_secs(40), ..RetryPolicy::exponential(Duration::from_secs(15)) };
/// assert_eq!(delays(capped), [15, 30, 40, 40]);
/// ```
///
/// As JSON it may leave fields out: they are those of the constructor of its backoff.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_core::RetryPolicy;
/// let policy: RetryPolicy = serde_json::from_str(r#"{"backoff": "fixed", "base_ms": 7000}"#)?;
/// assert_eq!(policy, RetryPolicy::fixed(Duration::from_secs(7)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Said")]
pub struct RetryPolicy {
    /// How the delay grows.
    pub backoff: Backoff,
    /// The delay after the first failure. Stored with a job in whole milliseconds.
    #[serde(rename = "base_ms", with = "millis")]
    pub base: Duration,
    /// The growth from one failure to the next, for [`Backoff::Exponential`]; below 1 counts as 1.
    pub factor: f64,
    /// The longest delay before jitter. Stored with a job in whole milliseconds.
    #[serde(rename = "max_ms", with = "millis")]
    pub max: Duration,
    /// The spread as a part of the delay: 0.1 means ± 10 %. Kept within 0 and 1.
    pub jitter: f64,
}

impl RetryPolicy {
    /// The longest delay of a policy that does not say: a day.
    const LONGEST: Duration = Duration::from_secs(86_400);

    /// Delays that double from `base` on, at most a day, ± 10 %.
    pub const fn exponential(base: Duration) -> Self {
        Self { backoff: Backoff::Exponential, base, factor: 2.0, max: Self::LONGEST, jitter: 0.1 }
    }

    /// Delays that grow by `step`: `step`, twice that, three times that, at most a day, ± 10 %.
    pub const fn linear(step: Duration) -> Self {
        Self { backoff: Backoff::Linear, ..Self::exponential(step) }
    }

    /// The same delay each time, without jitter.
    pub const fn fixed(delay: Duration) -> Self {
        Self { backoff: Backoff::Fixed, base: delay, factor: 1.0, max: delay, jitter: 0.0 }
    }

    /// Reads how people write it: `linear:10s`, `exponential:15s:1h`, `fixed:1m`, that is how the delay grows, the first one, and
    /// perhaps the longest. `duration` reads one of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass_core::RetryPolicy;
    /// let seconds = |text: &str| text.parse().map(Duration::from_secs).map_err(|_| format!("{text} is no number"));
    /// assert_eq!(RetryPolicy::parse("linear:10", seconds), Ok(RetryPolicy::linear(Duration::from_secs(10))));
    /// assert!(RetryPolicy::parse("cubic:10", seconds).is_err());
    /// ```
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(text: &str, duration: impl Fn(&str) -> Result<Duration, String>) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("{what} in backoff {text:?}; write it like linear:10s, exponential:15s:1h or fixed:1m")
        };
        let mut parts = text.split(':');
        let make = match parts.next() {
            Some("exponential") => Self::exponential,
            Some("linear") => Self::linear,
            Some("fixed") => Self::fixed,
            _ => return Err(wrong("unknown kind")),
        };
        let base = parts.next().ok_or_else(|| wrong("no first delay"))?;
        let policy = make(duration(base)?);
        let Some(longest) = parts.next() else { return Ok(policy) };
        if text.starts_with("fixed") || parts.next().is_some() {
            return Err(wrong("too many delays"));
        }
        let max = duration(longest)?;
        if max < policy.base {
            return Err(wrong("the longest delay is shorter than the first"));
        }
        Ok(Self { max, ..policy })
    }

    /// The delay after failed attempt number `attempt` (from 1). `random` in 0..1 picks the jitter, so
    /// that tests and simulations decide it.
    pub fn delay(&self, attempt: u16, random: f64) -> Duration {
        let attempt = attempt.max(1);
        let growth = match self.backoff {
            Backoff::Fixed => 1.0,
            Backoff::Linear => f64::from(attempt),
            Backoff::Exponential => self.factor.max(1.0).powi(i32::from(attempt) - 1),
        };
        let capped = (self.base.as_secs_f64() * growth).min(self.max.as_secs_f64());
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * (2.0 * random - 1.0);
        Duration::try_from_secs_f64(capped * spread).unwrap_or(self.max)
    }
}

/// A policy as JSON says it.
#[derive(Deserialize)]
#[serde(default)]
struct Said {
    backoff: Backoff,
    #[serde(rename = "base_ms", with = "millis")]
    base: Duration,
    factor: Option<f64>,
    max_ms: Option<u64>,
    jitter: Option<f64>,
}

impl Default for Said {
    fn default() -> Self {
        let RetryPolicy { backoff, base, .. } = RetryPolicy::default();
        Self { backoff, base, factor: None, max_ms: None, jitter: None }
    }
}

impl From<Said> for RetryPolicy {
    fn from(said: Said) -> Self {
        let built = match said.backoff {
            Backoff::Exponential => Self::exponential(said.base),
            Backoff::Linear => Self::linear(said.base),
            Backoff::Fixed => Self::fixed(said.base),
        };
        Self {
            factor: said.factor.unwrap_or(built.factor),
            max: said.max_ms.map_or(built.max, Duration::from_millis),
            jitter: said.jitter.unwrap_or(built.jitter),
            ..built
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(15))
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

    fn read(text: &str) -> Result<RetryPolicy, String> {
        let minutes = |text: &str| text.parse().map(|n: u64| Duration::from_secs(60 * n));
        RetryPolicy::parse(text, |text| minutes(text).map_err(|_| format!("{text:?} is no number")))
    }

    #[test]
    fn backoffs_read_as_written() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        assert_eq!(read("linear:1"), Ok(RetryPolicy::linear(minutes(1))));
        assert_eq!(read("fixed:1"), Ok(RetryPolicy::fixed(minutes(1))));
        let capped = RetryPolicy { max: minutes(60), ..RetryPolicy::exponential(minutes(2)) };
        assert_eq!(read("exponential:2:60"), Ok(capped));
    }

    #[test]
    fn backoffs_that_are_none_are_refused() {
        for text in
            ["", "linear", "linear:", "cubic:1", "linear:-1", "linear:2:1", "fixed:1:2", "linear:1:2:3"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for backoff in [Backoff::Exponential, Backoff::Linear, Backoff::Fixed] {
            let policy = RetryPolicy {
                backoff,
                base: Duration::MAX,
                factor: f64::MAX,
                max: Duration::MAX,
                jitter: 1.0,
            };
            assert_eq!(policy.delay(u16::MAX, 1.0), Duration::MAX);
        }
    }

    #[test]
    fn a_stored_policy_is_read_again_and_a_newer_one_does_not_break() {
        let policy = RetryPolicy { jitter: 0.25, ..RetryPolicy::linear(Duration::from_millis(1_500)) };
        let text = serde_json::to_string(&policy).unwrap();
        assert!(text.contains(r#""backoff":"linear","base_ms":1500"#), "{text}");
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy);
        let newer: RetryPolicy = serde_json::from_str(r#"{"backoff":"fibonacci","seed":1}"#).unwrap();
        assert_eq!(newer, RetryPolicy::default());
    }
}
