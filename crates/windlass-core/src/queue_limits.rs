use crate::{Error, ErrorKind, Result, millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many jobs of a queue may run, over all workers of the store.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{QueueLimits, RateLimit};
///
/// let ten_at_once = QueueLimits::default().with_concurrency(10);
/// let hundred_a_minute = QueueLimits::default().with_rate(RateLimit::new(100, Duration::from_secs(60)));
/// assert!(ten_at_once.check().is_ok() && hundred_a_minute.check().is_ok());
/// assert!(QueueLimits::default().with_concurrency(0).check().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueueLimits {
    /// How many run at once, at most: 1 to [`Self::MAX_CONCURRENCY`]. A job that a worker lost, because its lease ended, is not counted any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many start in a time, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
}

/// How many jobs may start in a time: at most [`count`](Self::count) in every window of [`period`](Self::period), wherever it begins. Every attempt is a start.
/// A job that [costs](crate::Attributes::cost) more than 1 counts as so many. One that costs more than the burst, or the count, starts when the window has no
/// other start, and takes all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RateLimit {
    /// How many: 1 to [`Self::MAX_COUNT`].
    pub count: u32,
    /// In how long: 100 ms to 366 days.
    #[serde(rename = "period_ms", with = "millis")]
    pub period: Duration,
    /// How many of them may start at once: at most so many in every window of `period * burst / count`, which spreads the starts over the period. Without it all may
    /// start at its beginning. 1 to `count`, and such that its window is at least 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// At most `count` starts in every window of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWindow {
    /// How many.
    pub count: u32,
    /// The length of the window.
    pub length: Duration,
}

impl QueueLimits {
    /// The highest limit of concurrency.
    pub const MAX_CONCURRENCY: u32 = 1_000_000;

    /// With another [`Self::concurrency`].
    #[must_use]
    pub const fn with_concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// With another [`Self::rate`].
    #[must_use]
    pub const fn with_rate(mut self, rate: RateLimit) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Whether it limits nothing.
    pub const fn is_none(&self) -> bool {
        self.concurrency.is_none() && self.rate.is_none()
    }

    /// Checks the values; a store calls this before it keeps them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        if let Some(concurrency) = self.concurrency {
            within("the limit of concurrency", concurrency, Self::MAX_CONCURRENCY)?;
        }
        self.rate.map_or(Ok(()), |rate| rate.check())
    }
}

impl RateLimit {
    /// The highest count.
    pub const MAX_COUNT: u32 = 1_000_000_000;
    /// The shortest window.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// The longest window.
    pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

    /// So many per period, all at once if need be.
    pub const fn new(count: u32, period: Duration) -> Self {
        Self { count, period, burst: None }
    }

    /// With another [`Self::burst`].
    #[must_use]
    pub const fn with_burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    /// The windows that it consists of: one, or two where there is a burst smaller than the count.
    pub fn windows(&self) -> impl Iterator<Item = RateWindow> + use<> {
        let whole = RateWindow { count: self.count, length: self.period };
        let burst = self.burst.filter(|burst| *burst < self.count);
        let share = |count: u32| f64::from(count) / f64::from(self.count);
        let short = burst.map(|count| RateWindow { count, length: self.period.mul_f64(share(count)) });
        short.into_iter().chain([whole])
    }

    /// How many permissions a start takes of a job that [costs](crate::Attributes::cost) so much: what costs more than the
    /// count takes all of them.
    pub fn cost(&self, cost: u32) -> u32 {
        cost.min(self.count).max(1)
    }

    /// How long a worker may keep a permission to start before it uses it: a twentieth of the shortest window, a second at
    /// most. The store counts a permission for that much longer than a window, so that no window of starts ever has too many; it
    /// costs a twentieth of the rate at most.
    pub fn grace(&self) -> Duration {
        let shortest = self.windows().next().map_or(self.period, |window| window.length);
        (shortest / 20).min(Duration::from_secs(1))
    }

    fn check(&self) -> Result<()> {
        within("the count of a rate", self.count, Self::MAX_COUNT)?;
        if !(Self::SHORTEST..=Self::LONGEST).contains(&self.period) {
            return refuse(format!("the period of a rate must be 100 ms to 366 days, got {:?}", self.period));
        }
        let Some(burst) = self.burst else { return Ok(()) };
        within("the burst of a rate", burst, self.count)?;
        let window = self.windows().next().map_or(self.period, |window| window.length);
        if window < Self::SHORTEST {
            let least =
                (Self::SHORTEST.as_secs_f64() / self.period.as_secs_f64() * f64::from(self.count)).ceil();
            return refuse(format!(
                "a burst of {burst} at {} per {:?} is one every {window:?}, and the shortest window is 100 ms: use a burst of at least {least}",
                self.count, self.period
            ));
        }
        Ok(())
    }
}

fn within(what: &str, value: u32, most: u32) -> Result<()> {
    match (1..=most).contains(&value) {
        true => Ok(()),
        false => refuse(format!("{what} must be 1 to {most}, got {value}")),
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn refusal(limits: QueueLimits) -> String {
        limits.check().expect_err("refused").to_string()
    }

    #[test]
    fn a_burst_is_a_second_shorter_window() {
        let rate = RateLimit::new(1_000, SECOND).with_burst(200);
        let windows: Vec<_> = rate.windows().collect();
        let short = RateWindow { count: 200, length: SECOND / 5 };
        assert_eq!(windows, [short, RateWindow { count: 1_000, length: SECOND }]);
        assert_eq!(rate.grace(), Duration::from_millis(10));
        assert_eq!(RateLimit::new(5, SECOND).with_burst(5).windows().count(), 1);
        assert_eq!(RateLimit::new(5, 3600 * SECOND).grace(), SECOND);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let none = QueueLimits::default();
        assert_eq!(refusal(none.with_concurrency(0)), "the limit of concurrency must be 1 to 1000000, got 0");
        let rate = |count, period| none.with_rate(RateLimit::new(count, period));
        assert_eq!(refusal(rate(0, SECOND)), "the count of a rate must be 1 to 1000000000, got 0");
        assert_eq!(
            refusal(rate(1, SECOND / 100)),
            "the period of a rate must be 100 ms to 366 days, got 10ms"
        );
        assert!(refusal(rate(1, 400 * 86_400 * SECOND)).contains("366 days"));
        let burst = |burst| none.with_rate(RateLimit::new(1_000, SECOND).with_burst(burst));
        assert_eq!(refusal(burst(1_001)), "the burst of a rate must be 1 to 1000, got 1001");
        assert!(refusal(burst(10)).ends_with("use a burst of at least 100"), "{}", refusal(burst(10)));
        assert!(burst(100).check().is_ok());
    }
}
