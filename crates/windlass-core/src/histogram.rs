//! How often something took how long.

use serde::{Deserialize, Serialize, Serializer};
use std::{collections::BTreeMap, time::Duration};

/// Counts of durations, four for each doubling: what it says of a duration is off by an eighth at most. From 16 µs on; what took less counts as that.
///
/// Its JSON form is an object of counts by the number of their range, as stores keep it.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::Histogram;
///
/// let mut histogram = Histogram::default();
/// for ms in 1..=100 {
///     histogram.add(Duration::from_millis(ms), 1);
/// }
/// assert_eq!(histogram.count(), 100);
/// let median = histogram.quantile(0.5).unwrap().as_secs_f64();
/// assert!((0.044..0.057).contains(&median), "{median}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram(BTreeMap<u8, u64>);

/// How many durations there are, and those that 50, 95 and 99 percent of them do not exceed, in ms, off by an eighth at most; `None` where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50_ms: Option<f64>,
    /// Of twenty one takes longer.
    pub p95_ms: Option<f64>,
    /// Of a hundred one takes longer.
    pub p99_ms: Option<f64>,
}

impl Histogram {
    /// The upper end of the first range is `1 << FIRST` µs.
    const FIRST: u32 = 4;
    /// The last range is of everything from 2^40 µs on: twelve days.
    const LAST: u32 = 40;

    /// Counts a duration so many times.
    pub fn add(&mut self, duration: Duration, times: u64) {
        let count = self.0.entry(range_of(duration)).or_default();
        *count = count.saturating_add(times);
    }

    /// Counts what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (range, times) in &other.0 {
            let count = self.0.entry(*range).or_default();
            *count = count.saturating_add(*times);
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The duration that such a part of all does not exceed, from 0 to 1: the middle of its range. `None` where nothing was counted.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * part.clamp(0.0, 1.0)).ceil().max(1.0);
        let mut seen = 0.0;
        self.0.iter().find_map(|(range, count)| {
            seen += *count as f64;
            (seen >= wanted).then(|| middle_of(*range))
        })
    }

    /// About how much all of them are together.
    pub fn sum(&self) -> Duration {
        let add = |sum: Duration, (range, count): (&u8, &u64)| {
            let part = middle_of(*range).as_secs_f64() * *count as f64;
            sum.saturating_add(Duration::try_from_secs_f64(part).unwrap_or(Duration::MAX))
        };
        self.0.iter().fold(Duration::ZERO, add)
    }

    /// How many of them are in ranges that end by this time.
    pub fn count_up_to(&self, duration: Duration) -> u64 {
        let within = self.0.iter().filter(|(range, _)| end_of(**range) <= duration);
        within.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// What people look at.
    pub fn summary(&self) -> Quantiles {
        let ms = |part| {
            let duration = self.quantile(part)?;
            Some((duration.as_secs_f64() * 1e5).round() / 100.0)
        };
        Quantiles { count: self.count(), p50_ms: ms(0.5), p95_ms: ms(0.95), p99_ms: ms(0.99) }
    }

    pub(crate) fn as_summary<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.summary().serialize(serializer)
    }

    /// As in [`Self::default`].
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Range 0 is of what is shorter than 2^FIRST µs; then four for each doubling.
fn range_of(duration: Duration) -> u8 {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << Histogram::LAST);
    let Some(doublings) = micros.checked_ilog2().and_then(|log| log.checked_sub(Histogram::FIRST)) else {
        return 0;
    };
    let quarter = (micros >> (doublings + Histogram::FIRST - 2)) & 3;
    1 + doublings as u8 * 4 + quarter as u8
}

/// Where a range begins, in µs.
fn begin_of(range: u8) -> u64 {
    let Some(after) = range.checked_sub(1) else { return 0 };
    let (doublings, quarter) = (u32::from(after / 4), u64::from(after % 4));
    (4 + quarter).checked_shl(doublings + Histogram::FIRST - 2).unwrap_or(u64::MAX)
}

fn end_of(range: u8) -> Duration {
    Duration::from_micros(begin_of(range.saturating_add(1)))
}

fn middle_of(range: u8) -> Duration {
    Duration::from_micros(begin_of(range)).saturating_add(end_of(range)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_duration_is_in_its_range_and_off_by_an_eighth(micros in 16_u64..1 << 40) {
            let duration = Duration::from_micros(micros);
            let range = range_of(duration);
            prop_assert!(begin_of(range) <= micros && duration < end_of(range));
            let said = middle_of(range).as_secs_f64() / duration.as_secs_f64();
            prop_assert!((0.875..=1.125).contains(&said), "{said}");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_have_ranges() {
        assert_eq!(range_of(Duration::ZERO), 0);
        assert_eq!(range_of(Duration::from_micros(15)), 0);
        assert_eq!(range_of(Duration::from_micros(16)), 1);
        assert_eq!(range_of(Duration::MAX), 145);
        assert_eq!(Histogram::default().quantile(0.5), None);
        // What a store may hold that another program wrote.
        let mut odd: Histogram = serde_json::from_str(r#"{"255": 18446744073709551615}"#).unwrap();
        odd.add(Duration::MAX, u64::MAX);
        assert_eq!(odd.count(), u64::MAX);
        assert!(odd.sum() > Duration::ZERO && odd.quantile(1.0).is_some());
    }

    #[test]
    fn merging_counts_both() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.add(Duration::from_millis(1), 2);
        other.add(Duration::from_millis(1), 3);
        other.add(Duration::from_secs(1), 1);
        one.merge(&other);
        assert_eq!((one.count(), one.count_up_to(Duration::from_millis(2))), (6, 5));
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"24":5,"64":1}"#);
    }
}
