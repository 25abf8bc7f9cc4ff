use crate::{
    Args, Attributes, Error, ErrorKind, Limits, NewJob, Result, When,
    limits::{NO_PATH, is_folder, shorten},
    millis,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What happens at a tick while the job of the tick before has not ended: it waits, runs, or waits to be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// Its job is enqueued all the same.
    #[default]
    Allow,
    /// The tick is passed over.
    Skip,
    /// Its job is enqueued when the one before has ended. Further ticks are passed over meanwhile.
    QueueOne,
}

/// Which ticks fire that nobody was there to fire in time: no worker ran, the store was down, its clock jumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// None that is more than [a minute](Self::LATE) late. Of several that are less late, the last.
    None,
    /// The last one, however late.
    #[default]
    Last,
    /// The last so many, oldest first: 1 to 1,000.
    All(u16),
}

impl Missed {
    /// Up to here a tick is late and not missed: another worker may have to take over first.
    pub const LATE: Duration = Duration::from_secs(60);
    /// The most ticks that are caught up with.
    pub const MOST: u16 = 1_000;
}

/// A schedule to declare: a job that is enqueued again and again, at the ticks of a cron expression or an interval.
///
/// Crate `windlass-schedule` reads the expression and the name of the zone, and says what is wrong with them.
///
/// ```
/// use windlass_core::{Args, Limits, Missed, NewJob, Overlap, Schedule};
/// # fn main() -> windlass_core::Result<()> {
/// let report = NewJob::new("report.daily", Args::parse("{}")?).with_queue("reports");
/// let schedule = Schedule::new("reports", "30 6 * * MON-FRI", report)
///     .with_zone("Europe/Berlin")
///     .with_overlap(Overlap::Skip)
///     .with_missed(Missed::None);
/// Limits::default().check_schedules(&[schedule])?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    name: String,
    source: String,
    cron: String,
    zone: String,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    jitter: Duration,
    overlap: Overlap,
    missed: Missed,
    job: NewJob,
}

impl Schedule {
    /// The zone of a schedule that names none.
    pub const DEFAULT_ZONE: &'static str = "UTC";
    /// The longest name, in bytes.
    pub const MAX_NAME_BYTES: usize = 200;
    /// The longest expression, in bytes.
    pub const MAX_CRON_BYTES: usize = 200;
    /// The longest jitter.
    pub const MAX_JITTER: Duration = Duration::from_secs(86_400);

    /// A schedule by its name: five or six fields of cron (with seconds first), an alias such as `@daily`, or `every 90s`.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: NewJob) -> Self {
        Self {
            name: name.into(),
            source: String::new(),
            cron: cron.into(),
            zone: Self::DEFAULT_ZONE.to_owned(),
            starts_at: None,
            ends_at: None,
            jitter: Duration::ZERO,
            overlap: Overlap::default(),
            missed: Missed::default(),
            job,
        }
    }

    /// Sets the time zone in which the fields are read: a name of the IANA database such as `Europe/Berlin`.
    #[must_use]
    pub fn with_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Sets from when on there are ticks. The ticks of an interval count from here.
    #[must_use]
    pub fn with_start(mut self, at: Timestamp) -> Self {
        self.starts_at = Some(at);
        self
    }

    /// Sets from when on there are no ticks any more.
    #[must_use]
    pub fn with_end(mut self, at: Timestamp) -> Self {
        self.ends_at = Some(at);
        self
    }

    /// Has each tick fire up to so much later: by a part of it that follows from the schedule's name and the tick alone, so
    /// that schedules of one time spread. At most a day; ticks stay in order.
    #[must_use]
    pub fn with_jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Sets what happens while the job before has not ended.
    #[must_use]
    pub fn with_overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets what becomes of missed ticks.
    #[must_use]
    pub fn with_missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Says who declares the schedule, so that it can be removed when its declaration is gone: see
    /// [`ScheduleStore::put_schedules`](crate::ScheduleStore::put_schedules).
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Another job in place of its own, such as the same with sealed args.
    #[must_use]
    pub fn with_job(mut self, job: NewJob) -> Self {
        self.job = job;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who declared it; empty for nobody in particular.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The expression.
    pub fn cron(&self) -> &str {
        &self.cron
    }

    /// The name of its time zone.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// No tick is before this.
    pub fn starts_at(&self) -> Option<Timestamp> {
        self.starts_at
    }

    /// Every tick is before this.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.ends_at
    }

    /// How much later a tick may fire.
    pub fn jitter(&self) -> Duration {
        self.jitter
    }

    /// What happens while the job before has not ended.
    pub fn overlap(&self) -> Overlap {
        self.overlap
    }

    /// What becomes of missed ticks.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// The job that each tick enqueues.
    pub fn job(&self) -> &NewJob {
        &self.job
    }

    /// The job of one tick: its meta says of which, as `windlass.schedule` and `windlass.tick`. `None`: one that was asked for
    /// by hand.
    pub fn job_at(&self, tick: Option<Timestamp>) -> NewJob {
        let meta = self.job.attributes().and_then(|attributes| attributes.meta.as_ref());
        let mut meta: serde_json::Map<String, serde_json::Value> =
            meta.and_then(|meta| serde_json::from_str(meta.as_str()).ok()).unwrap_or_default();
        meta.insert("windlass.schedule".to_owned(), self.name.as_str().into());
        if let Some(tick) = tick {
            meta.insert("windlass.tick".to_owned(), tick.to_string().into());
        }
        // A map of JSON values is always written, and is no deeper than it was.
        match Args::of(&meta) {
            Ok(meta) => self.job.clone().with_meta(meta),
            Err(_) => self.job.clone(),
        }
    }

    /// Everything but name and source, as stores keep it: one JSON object.
    pub fn to_json(&self) -> String {
        let attributes = self.job.attributes();
        let stored = Stored {
            cron: self.cron.clone(),
            zone: self.zone.clone(),
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            jitter: self.jitter,
            overlap: self.overlap,
            missed: self.missed,
            kind: self.job.kind().to_owned(),
            args: self.job.args().clone(),
            queue: self.job.queue().to_owned(),
            priority: self.job.priority(),
            max_attempts: self.job.max_attempts(),
            expiry: attributes.and_then(|attributes| attributes.expires_after),
            attributes: attributes.cloned(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads what a store kept. Fields of newer programs are passed over.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for what SQL wrote that makes no schedule.
    pub fn from_store(name: &str, source: &str, json: &str) -> Result<Self> {
        let stored: Stored = serde_json::from_str(json).map_err(|cause| {
            let message = format!("the definition of schedule {name:?} cannot be read: {cause}");
            Error::new(ErrorKind::InvalidOption, message).with_source(cause)
        })?;
        let job = NewJob::new(stored.kind, stored.args)
            .with_queue(stored.queue)
            .with_priority(stored.priority)
            .with_max_attempts(stored.max_attempts)
            .with_attributes(stored.attributes, stored.expiry);
        Ok(Self {
            name: name.to_owned(),
            source: source.to_owned(),
            cron: stored.cron,
            zone: stored.zone,
            starts_at: stored.starts_at,
            ends_at: stored.ends_at,
            jitter: stored.jitter,
            overlap: stored.overlap,
            missed: stored.missed,
            job,
        })
    }

    /// Whether the other one has the same ticks.
    pub fn ticks_like(&self, other: &Self) -> bool {
        (&self.cron, &self.zone, self.starts_at, self.ends_at)
            == (&other.cron, &other.zone, other.starts_at, other.ends_at)
    }
}

/// A definition as stores keep it. The SQL function `set_schedule` writes the same.
#[derive(Serialize, Deserialize)]
struct Stored {
    cron: String,
    #[serde(default = "default_zone")]
    zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    starts_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends_at: Option<Timestamp>,
    #[serde(default, rename = "jitter_ms", with = "millis", skip_serializing_if = "Duration::is_zero")]
    jitter: Duration,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    missed: Missed,
    kind: String,
    args: Args,
    #[serde(default = "default_queue")]
    queue: String,
    #[serde(default)]
    priority: i16,
    #[serde(default = "default_max_attempts")]
    max_attempts: u16,
    #[serde(default, rename = "expiry_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    expiry: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attributes: Option<Attributes>,
}

fn default_zone() -> String {
    Schedule::DEFAULT_ZONE.to_owned()
}

fn default_queue() -> String {
    NewJob::DEFAULT_QUEUE.to_owned()
}

fn default_max_attempts() -> u16 {
    NewJob::DEFAULT_MAX_ATTEMPTS
}

impl Limits {
    /// Checks all of schedules but the expression and the zone; a store calls this before it writes the first.
    ///
    /// # Errors
    /// The first one's offence, which names the schedule.
    pub fn check_schedules(&self, schedules: &[Schedule]) -> Result<()> {
        let mut names = std::collections::HashSet::new();
        for schedule in schedules {
            check_name("name of a schedule", &schedule.name)?;
            if !schedule.source.is_empty() {
                check_name("source of a schedule", &schedule.source)?;
            }
            if !names.insert(&*schedule.name) {
                return refuse(format!("schedule {:?} is declared twice; name it once", schedule.name));
            }
            self.check_schedule(schedule).map_err(|error| {
                let message = format!("schedule {:?}: {error}; nothing was changed", schedule.name);
                Error::new(error.kind(), message)
            })?;
        }
        Ok(())
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        let job = &schedule.job;
        if job.when() != When::Now {
            return refuse("its job says when it is due, which the schedule does".to_owned());
        }
        if job.unique().is_some() {
            return refuse("its job is unique; use the schedule's overlap policy".to_owned());
        }
        if schedule.cron.len() > Schedule::MAX_CRON_BYTES || schedule.zone.len() > Schedule::MAX_NAME_BYTES {
            return refuse(format!(
                "an expression is at most {} bytes and a zone {}",
                Schedule::MAX_CRON_BYTES,
                Schedule::MAX_NAME_BYTES
            ));
        }
        if schedule.jitter > Schedule::MAX_JITTER {
            return refuse(format!("jitter must be at most a day, got {:?}", schedule.jitter));
        }
        if let Missed::All(most) = schedule.missed
            && !(1..=Missed::MOST).contains(&most)
        {
            return refuse(format!(
                "missed must be none, last or all up to 1 to {}, got {most}",
                Missed::MOST
            ));
        }
        if let (Some(start), Some(end)) = (schedule.starts_at, schedule.ends_at)
            && end <= start
        {
            return refuse(format!("it ends at {end}, before it starts at {start}"));
        }
        self.check(&[schedule.job_at(Some(Timestamp::MAX))])
    }
}

fn check_name(what: &str, name: &str) -> Result<()> {
    let fits = (1..=Schedule::MAX_NAME_BYTES).contains(&name.len());
    if fits && !is_folder(name) && !name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Ok(());
    }
    let how = format!("use 1 to {} bytes without spaces or control characters", Schedule::MAX_NAME_BYTES);
    let how = if is_folder(name) { NO_PATH } else { &how };
    let message = format!("invalid {what} {:?}; {how}", shorten(name));
    Err(Error::new(ErrorKind::InvalidName, message))
}

fn refuse(message: String) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        let meta = Args::parse(r#"{"who":"me"}"#).unwrap();
        let job = NewJob::new("k", Args::parse("[1.50]").unwrap()).with_queue("q").with_meta(meta);
        Schedule::new("s", "@daily", job.with_expiry(Duration::from_secs(9)))
    }

    #[test]
    fn what_a_store_keeps_is_the_same_schedule() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let whole = schedule()
            .with_zone("Europe/Berlin")
            .with_start(at("2026-01-01T00:00:00Z"))
            .with_end(at("2027-01-01T00:00:00Z"))
            .with_jitter(Duration::from_secs(3))
            .with_overlap(Overlap::QueueOne)
            .with_missed(Missed::All(7));
        for schedule in [schedule(), whole] {
            let json = schedule.to_json();
            let again = Schedule::from_store("s", "", &json).unwrap();
            assert_eq!(again.to_json(), json);
            assert!(again.ticks_like(&schedule));
            let attributes = again.job().attributes().unwrap();
            assert_eq!(attributes.expires_after, Some(Duration::from_secs(9)));
            assert_eq!(again.job().args().as_str(), "[1.50]");
        }
        let least = Schedule::from_store("s", "", r#"{"cron":"@daily","kind":"k","args":{},"newer":1}"#);
        assert_eq!(least.unwrap().missed(), Missed::Last);
    }

    #[test]
    fn a_job_says_of_which_tick_it_is() {
        let job = schedule().job_at(Some("2026-01-01T00:00:00Z".parse().unwrap()));
        let meta = job.attributes().unwrap().meta.as_ref().unwrap();
        assert_eq!(
            meta.as_str(),
            r#"{"who":"me","windlass.schedule":"s","windlass.tick":"2026-01-01T00:00:00Z"}"#
        );
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let limits = Limits::default();
        limits.check_schedules(&[schedule()]).unwrap();
        let late = schedule().with_job(schedule().job.with_delay(Duration::from_secs(1)));
        let reversed = schedule().with_start(Timestamp::MAX).with_end(Timestamp::UNIX_EPOCH);
        for (schedules, says) in [
            (vec![schedule(), schedule()], "declared twice"),
            (vec![Schedule { name: "a b".into(), ..schedule() }], "invalid name of a schedule"),
            (
                vec![Schedule { name: "..".into(), ..schedule() }],
                "invalid name of a schedule \"..\"; browsers",
            ),
            (vec![schedule().with_source("\n")], "invalid source"),
            (vec![schedule().with_jitter(Duration::from_secs(86_401))], "at most a day"),
            (vec![schedule().with_missed(Missed::All(0))], "1 to 1000, got 0"),
            (vec![late], "says when it is due"),
            (vec![reversed], "before it starts"),
            (
                vec![schedule().with_job(schedule().job.with_priority(101))],
                "schedule \"s\": priority must be -100 to 100, got 101",
            ),
        ] {
            let error = limits.check_schedules(&schedules).unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(says), "{error}");
        }
    }
}
