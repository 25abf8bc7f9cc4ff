use crate::invalid;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use windlass_core::Result;

/// The shortest and the longest interval: a second, and a year and a day.
const RANGE: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_hours(367 * 24));

/// `every 90s`: ticks so far apart, counted from the start of the schedule, or from 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    micros: i128,
}

impl Interval {
    /// Reads what stands behind `every`; `None` when that word does not come first.
    pub(crate) fn parse(text: &str) -> Option<Result<Self>> {
        let text = text.trim();
        let (word, length) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        word.eq_ignore_ascii_case("every").then(|| Self::of(length.trim()))
    }

    fn of(length: &str) -> Result<Self> {
        let refuse = |why: &str| {
            let shown: String = length.chars().take(40).collect();
            invalid(format!(
                "the interval {shown:?} {why}; write a second to a year, such as \"every 90s\", \"every 15m\" or \"every 1h 30m\""
            ))
        };
        let span: Span = length.parse().map_err(|_| refuse("is not a length of time"))?;
        let of_one_length = span.to_duration(SpanRelativeTo::days_are_24_hours());
        let parsed = of_one_length.map_err(|_| refuse("names months or years, which are of many lengths"))?;
        if !(RANGE.0..=RANGE.1).contains(&parsed) {
            return Err(refuse("is out of range"));
        }
        if parsed.subsec_nanos() % 1_000_000 != 0 {
            return Err(refuse("is not in whole milliseconds"));
        }
        Ok(Self { micros: parsed.as_micros() })
    }

    /// The first tick after this instant.
    pub(crate) fn next_after(self, after: Timestamp, start: Option<Timestamp>) -> Option<Timestamp> {
        let origin = i128::from(start.map_or(0, Timestamp::as_microsecond));
        // Ticks are whole microseconds from the origin, so what is cut off of `after` makes no difference.
        let past = i128::from(after.as_microsecond()) - origin;
        let next = origin + (past.div_euclid(self.micros) + 1) * self.micros;
        Timestamp::from_microsecond(i64::try_from(next).ok()?).ok()
    }
}
