use crate::{Args, NewJob, RetryPolicy, Schedule};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value as Json;
use std::{ops::Range, path::Path, time::Duration};
use windlass_core::{Error, ErrorKind, Limits, Missed, Overlap, Result};
use windlass_schedule::Timing;

/// The largest file that is read, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Schedules that a TOML file declares.
///
/// ```
/// # fn main() -> windlass::Result<()> {
/// let file = windlass::ScheduleFile::parse(r#"
///     source = "app"              # whose schedules these are
///
///     [[schedule]]
///     name = "reports"
///     cron = "30 6 * * MON-FRI"
///     zone = "Europe/Berlin"
///     kind = "report.daily"
///     args = { format = "pdf" }
///     queue = "reports"
///     overlap = "skip"            # allow, skip, queue_one
///     missed = 3                  # none, last, or so many at most
///     jitter = "5m"
/// "#)?;
/// assert_eq!((file.source.as_str(), file.schedules[0].name()), ("app", "reports"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScheduleFile {
    /// Whose schedules these are; empty when it does not say.
    pub source: String,
    /// In the order of the file.
    pub schedules: Vec<Schedule>,
}

impl ScheduleFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`]: what is wrong, and in which line.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |why: String| Error::new(ErrorKind::InvalidOption, format!("{}: {why}", path.display()));
        let text =
            std::fs::read_to_string(path).map_err(|cause| refuse(format!("cannot be read: {cause}")))?;
        Self::parse(&text).map_err(|error| refuse(error.to_string()))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_BYTES {
            return Err(refuse(format!(
                "a file of schedules is at most {MAX_BYTES} bytes, got {}",
                text.len()
            )));
        }
        let file: File = toml::from_str(text).map_err(|cause| refuse(on_one_line(text, &cause)))?;
        // How large args may be the store says.
        let limits = Limits { max_args_bytes: usize::MAX };
        let read = |entry: toml::Spanned<Entry>| {
            let span = entry.span();
            // Only where something is wrong: each counts from the beginning of the file.
            let at_line =
                |error: Error| Error::new(error.kind(), format!("line {}: {error}", line_of(text, &span)));
            let schedule = entry.into_inner().schedule(&file.source).map_err(&at_line)?;
            Timing::of(&schedule).map_err(&at_line)?;
            limits.check_schedules(std::slice::from_ref(&schedule)).map_err(at_line)?;
            Ok(schedule)
        };
        let schedules = file.schedule.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self { source: file.source, schedules })
    }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: String,
    #[serde(default)]
    schedule: Vec<toml::Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    cron: String,
    zone: Option<String>,
    starts_at: Option<toml::Value>,
    ends_at: Option<toml::Value>,
    jitter: Option<String>,
    #[serde(default)]
    overlap: Overlap,
    missed: Option<toml::Value>,
    kind: String,
    args: Option<toml::Value>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    key: Option<String>,
    meta: Option<toml::Table>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    tracked: bool,
    timeout: Option<String>,
    backoff: Option<String>,
    cost: Option<u32>,
    expiry: Option<String>,
}

impl Entry {
    fn schedule(self, source: &str) -> Result<Schedule> {
        let named = |error: Error| Error::new(error.kind(), format!("schedule {:?}: {error}", self.name));
        let job = self.job().map_err(named)?;
        let mut schedule = Schedule::new(&self.name, &self.cron, job).with_source(source);
        schedule = schedule.with_overlap(self.overlap);
        if let Some(zone) = &self.zone {
            schedule = schedule.with_zone(zone);
        }
        if let Some(at) = &self.starts_at {
            schedule = schedule.with_start(time("starts_at", at).map_err(named)?);
        }
        if let Some(at) = &self.ends_at {
            schedule = schedule.with_end(time("ends_at", at).map_err(named)?);
        }
        if let Some(jitter) = &self.jitter {
            schedule = schedule.with_jitter(duration("jitter", jitter).map_err(named)?);
        }
        if let Some(value) = &self.missed {
            schedule = schedule.with_missed(missed(value).map_err(named)?);
        }
        Ok(schedule)
    }

    fn job(&self) -> Result<NewJob> {
        self.args.as_ref().map_or(Ok(()), |args| check_numbers("args", args))?;
        let args = self.args.as_ref().map_or_else(|| Json::Object(serde_json::Map::new()), json);
        let mut job = NewJob::new(self.kind.clone(), Args::of(&args)?);
        if let Some(queue) = &self.queue {
            job = job.with_queue(queue.clone());
        }
        if let Some(priority) = self.priority {
            job = job.with_priority(priority);
        }
        if let Some(most) = self.max_attempts {
            job = job.with_max_attempts(most);
        }
        if let Some(key) = &self.key {
            job = job.with_key(key.clone());
        }
        if let Some(meta) = &self.meta {
            let meta = toml::Value::Table(meta.clone());
            check_numbers("meta", &meta)?;
            job = job.with_meta(Args::of(&json(&meta))?);
        }
        if self.tracked {
            job = job.with_tracking();
        }
        if let Some(timeout) = &self.timeout {
            job = job.with_timeout(duration("timeout", timeout)?);
        }
        if let Some(backoff) = &self.backoff {
            let read = |text: &str| duration("backoff", text).map_err(|error| error.to_string());
            job = job.with_retry_policy(RetryPolicy::parse(backoff, read).map_err(refuse)?);
        }
        if let Some(cost) = self.cost {
            job = job.with_cost(cost);
        }
        if let Some(expiry) = &self.expiry {
            job = job.with_expiry(duration("expiry", expiry)?);
        }
        Ok(if self.tags.is_empty() { job } else { job.with_tags(self.tags.clone()) })
    }
}

fn duration(field: &str, text: &str) -> Result<Duration> {
    let parsed: Option<jiff::Span> = text.parse().ok();
    let parsed = parsed.and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok());
    parsed.and_then(|parsed| Duration::try_from(parsed).ok()).ok_or_else(|| {
        refuse(format!("{field} must be a length of time such as \"90s\" or \"1h 30m\", got {text:?}"))
    })
}

/// What is wrong, and where: an error of a command is one line.
fn on_one_line(text: &str, cause: &toml::de::Error) -> String {
    // Not all that serde says is one.
    let said = cause.message().trim_end().replace('\n', "; ");
    let Some(at) = cause.span() else { return said };
    let start = text.get(..at.start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let line: String = line.chars().take(100).collect();
    format!("line {}, `{line}`: {said}", line_of(text, &at))
}

fn time(field: &str, value: &toml::Value) -> Result<Timestamp> {
    let text = match json(value) {
        Json::String(text) => text,
        other => other.to_string(),
    };
    text.parse().map_err(|_| {
        refuse(format!("{field} must be a time with its offset such as 2026-01-31T08:00:00Z, got {text}"))
    })
}

fn missed(value: &toml::Value) -> Result<Missed> {
    match value {
        toml::Value::String(word) if word == "none" => Ok(Missed::None),
        toml::Value::String(word) if word == "last" => Ok(Missed::Last),
        toml::Value::Integer(most) if u16::try_from(*most).is_ok() => {
            Ok(Missed::All(u16::try_from(*most).unwrap_or_default()))
        }
        other => Err(refuse(format!(
            "missed must be \"none\", \"last\" or a number of ticks of 1 to {}, got {other}",
            Missed::MOST,
            other = json(other)
        ))),
    }
}

/// Refuses what TOML has and JSON has not: `nan` and `inf` would be null.
fn check_numbers(field: &str, value: &toml::Value) -> Result<()> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => {
            Err(refuse(format!("{field} is {number}, which is no number of JSON; write it as a string")))
        }
        toml::Value::Array(values) => values.iter().try_for_each(|value| check_numbers(field, value)),
        toml::Value::Table(table) => {
            table.iter().try_for_each(|(name, value)| check_numbers(&format!("{field}.{name}"), value))
        }
        _ => Ok(()),
    }
}

/// A value as JSON; a date is its text.
fn json(value: &toml::Value) -> Json {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(is) => (*is).into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Array(values) => values.iter().map(json).collect(),
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_entry_is_read() {
        let file = ScheduleFile::parse(
            r#"
            source = "app"
            [[schedule]]
            name = "a"
            cron = "@daily"
            zone = "Europe/Berlin"
            starts_at = 2026-01-01T00:00:00Z
            ends_at = "2027-01-01T00:00:00Z"
            jitter = "5m"
            overlap = "queue_one"
            missed = 7
            kind = "k"
            args = { to = ["a", 1, 1.5, true], at = 2026-01-01 }
            queue = "q"
            priority = -3
            max_attempts = 2
            key = "acme"
            meta = { who = "me" }
            tags = ["x"]
            tracked = true
            timeout = "30s"
            backoff = "linear:10s:1m"
            cost = 5
            expiry = "1d"
            [[schedule]]
            name = "b"
            cron = "every 90s"
            kind = "k"
            "#,
        )
        .unwrap();
        assert_eq!(file.schedules.len(), 2);
        assert_eq!(
            file.schedules[0].to_json(),
            r#"{"cron":"@daily","zone":"Europe/Berlin","starts_at":"2026-01-01T00:00:00Z","ends_at":"2027-01-01T00:00:00Z","jitter_ms":300000,"overlap":"queue_one","missed":{"all":7},"kind":"k","args":{"at":"2026-01-01","to":["a",1,1.5,true]},"queue":"q","priority":-3,"max_attempts":2,"expiry_ms":86400000,"attributes":{"key":"acme","meta":{"who":"me"},"tracked":true,"timeout_ms":30000,"retry_policy":{"backoff":"linear","base_ms":10000,"factor":2.0,"max_ms":60000,"jitter":0.1},"tags":["x"],"cost":5}}"#
        );
        assert!(file.schedules.iter().all(|schedule| schedule.source() == "app"));
        assert!(ScheduleFile::parse("").unwrap().schedules.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let entry =
            |line: &str| format!("\n[[schedule]]\nname = \"a\"\ncron = \"@daily\"\nkind = \"k\"\n{line}\n");
        for (text, says) in [
            (
                "[[schedule]]\nname = \"a\"\ncron = \"61 * * * *\"\nkind = \"k\"".to_owned(),
                "line 1: schedule \"a\": the minute",
            ),
            (entry("crno = 1"), "unknown field `crno`"),
            (entry("zone = \"Mars\""), "line 2: schedule \"a\": unknown time zone"),
            (entry("overlap = \"sometimes\""), "unknown variant `sometimes`"),
            (entry("missed = \"some\""), "missed must be"),
            (entry("missed = 70000"), "missed must be"),
            (entry("missed = 0"), "line 2: schedule \"a\": missed must be"),
            (entry("key = \"\""), "line 2: schedule \"a\": "),
            (entry("priority = 101"), "line 2: schedule \"a\": priority must be"),
            (entry("backoff = \"cubic:1s\""), "unknown kind in backoff \"cubic:1s\""),
            (entry("backoff = \"linear:soon\""), "backoff must be a length of time"),
            (entry("jitter = \"soon\""), "jitter must be a length of time"),
            (entry("starts_at = 2026-01-01"), "starts_at must be a time with its offset"),
            (
                entry("args = { a = [1, nan] }"),
                "line 2: schedule \"a\": args.a is NaN, which is no number of JSON",
            ),
            (entry("meta = { b = { c = -inf } }"), "meta.b.c is -inf"),
            (entry("priority = 70000"), "70000"),
            ("schedule = 1".to_owned(), "invalid type"),
            ("[[schedule]]\nname = \"a\"".to_owned(), "missing field"),
            ("[[".to_owned(), "line 1, `[[`: "),
        ] {
            let error = ScheduleFile::parse(&text).unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(says), "{text}: {error}");
        }
    }
}
