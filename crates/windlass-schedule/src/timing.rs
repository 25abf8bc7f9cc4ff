use crate::{cron::CronRule, interval::Interval, zone::zone};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use windlass_core::{Error, Result, Schedule};

/// The ticks of a schedule.
///
/// ```
/// # use windlass_core::{Args, NewJob, Schedule};
/// # fn main() -> windlass_core::Result<()> {
/// let job = NewJob::new("report.daily", Args::parse("{}")?);
/// let schedule = Schedule::new("reports", "30 2 * * *", job).with_zone("Europe/Berlin");
/// let timing = windlass_schedule::Timing::of(&schedule)?;
/// // The night in which the clock goes from 2 to 3.
/// let night = "2026-03-28T12:00:00Z".parse().unwrap();
/// let ticks: Vec<String> = timing.after(night).take(2).map(|tick| tick.to_string()).collect();
/// assert_eq!(ticks, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Timing {
    rule: Rule,
    zone: TimeZone,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<CronRule>),
    Interval(Interval),
}

impl Timing {
    /// Reads the expression and the zone of a schedule.
    ///
    /// # Errors
    /// [`InvalidOption`](windlass_core::ErrorKind::InvalidOption): what is wrong with which field, and what is allowed.
    pub fn of(schedule: &Schedule) -> Result<Self> {
        let named =
            |error: Error| Error::new(error.kind(), format!("schedule {:?}: {error}", schedule.name()));
        Ok(Self {
            rule: rule(schedule.cron()).map_err(named)?,
            zone: zone(schedule.zone()).map_err(named)?,
            starts_at: schedule.starts_at(),
            ends_at: schedule.ends_at(),
        })
    }

    /// The first tick after this instant; `None` when there is none any more.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        // A tick at the start counts.
        let before_start = self.starts_at.and_then(|at| at.checked_sub(SignedDuration::from_micros(1)).ok());
        let after = before_start.map_or(after, |start| start.max(after));
        let tick = match &self.rule {
            Rule::Cron(rule) => rule.next_after(after, &self.zone),
            Rule::Interval(interval) => interval.next_after(after, self.starts_at),
        };
        tick.filter(|tick| self.ends_at.is_none_or(|end| *tick < end))
    }

    /// All ticks after this instant, in order.
    pub fn after(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        let mut last = Some(after);
        std::iter::from_fn(move || {
            last = last.and_then(|last| self.next_after(last));
            last
        })
    }

    /// An instant as the clock of the schedule's zone shows it.
    pub fn show(&self, at: Timestamp) -> jiff::Zoned {
        at.to_zoned(self.zone.clone())
    }
}

fn rule(text: &str) -> Result<Rule> {
    match Interval::parse(text) {
        Some(interval) => interval.map(Rule::Interval),
        None => CronRule::parse(text).map(|rule| Rule::Cron(Box::new(rule))),
    }
}
