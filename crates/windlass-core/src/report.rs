use crate::{Args, ClaimRef, Error, ErrorKind, JobId, Limits, Result, WorkerId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far a job is, as its handler says.
///
/// ```
/// use windlass_core::Progress;
/// assert_eq!(Progress::from(40.0).percent, 40.0);
/// let progress = Progress::from((40.0, "page 4 of 10"));
/// assert_eq!(progress.note.as_deref(), Some("page 4 of 10"));
/// assert!(progress.check().is_ok() && Progress::from(140.0).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: f64,
    /// What it is at, in words.
    pub note: Option<String>,
}

impl Progress {
    /// Adds what it is at, in words: at most [`Limits::MAX_NOTE_BYTES`].
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Checks the number and the length of the note.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] that says which of them it is.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=100.0).contains(&self.percent) {
            return refuse(format!("progress must be 0 to 100 (per cent), got {}", self.percent));
        }
        let (note, most) = (self.note.as_deref().unwrap_or_default(), Limits::MAX_NOTE_BYTES);
        if note.len() > most {
            let size = note.len();
            return refuse(format!(
                "the note of a progress is {size} bytes, the limit is {most}; log longer texts"
            ));
        }
        match note.bytes().position(|byte| byte == 0) {
            Some(at) => refuse(format!("the note of a progress must not contain NUL, got one at byte {at}")),
            None => Ok(()),
        }
    }
}

impl From<f64> for Progress {
    fn from(percent: f64) -> Self {
        Self { percent, note: None }
    }
}

impl<T: Into<String>> From<(f64, T)> for Progress {
    fn from((percent, note): (f64, T)) -> Self {
        Self::from(percent).with_note(note)
    }
}

/// What handlers of a worker say of their running jobs: one call for many of them.
#[derive(Clone, Debug, Default)]
pub struct ReportRequest {
    /// Who holds them; refused with a lost lease when it is no longer live.
    pub worker: WorkerId,
    /// What is new, by job. A job is named once.
    pub reports: Vec<JobReport>,
}

impl ReportRequest {
    /// Checks every report; a store calls this before it writes the first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], or [`ErrorKind::InvalidArgs`] for a checkpoint.
    pub fn check(&self) -> Result<()> {
        self.reports.iter().try_for_each(JobReport::check)
    }
}

/// What a handler said of its job since the report before.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// The claim.
    pub claim: ClaimRef,
    /// The job.
    pub job: JobId,
    /// The job's [`ClaimedJob::position`](crate::ClaimedJob::position).
    pub position: i64,
    /// Which attempt it is, from 1.
    pub attempt: u16,
    /// Which report of this job under this claim it is, from 1. One that is repeated, or overtaken by a later one, changes
    /// nothing.
    pub number: u64,
    /// Takes the place of the progress before; `None` leaves it.
    pub progress: Option<Progress>,
    /// Takes the place of the checkpoint before; `None` leaves it.
    pub checkpoint: Option<Args>,
    /// Lines to add to the log, oldest first.
    pub log: Vec<LogEntry>,
    /// How many lines before these were dropped, because there were too many at once.
    pub dropped: u64,
}

/// A line for the log of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// How long ago it was said.
    pub age: Duration,
    /// The line, as [`Limits::storable_line`] leaves it.
    pub text: String,
}

impl JobReport {
    fn check(&self) -> Result<()> {
        self.progress.as_ref().map_or(Ok(()), Progress::check)?;
        if let Some(checkpoint) = &self.checkpoint {
            Limits::check_checkpoint(checkpoint)?;
        }
        let (lines, most) = (self.log.len(), Limits::MAX_LOG_LINES);
        if lines > most {
            return refuse(format!("a report of job {} has {lines} lines, the limit is {most}", self.job));
        }
        let most = Limits::MAX_LOG_LINE_BYTES;
        let is_bad = |line: &&LogEntry| line.text.len() > most || line.text.contains('\0');
        match self.log.iter().find(is_bad) {
            Some(_) => {
                refuse(format!("a line of job {} is longer than {most} bytes or contains NUL", self.job))
            }
            None => Ok(()),
        }
    }
}

/// Whether a report was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It is stored, by this call or by one before.
    Accepted,
    /// The claim is unknown or belongs to somebody else, or the job is settled: it is no longer this worker's.
    Refused,
}

/// What the handlers of a job said of it while it ran, over all its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandlerReport {
    /// When the store last heard of it.
    pub reported_at: Timestamp,
    /// Which attempt that was, from 1.
    pub attempt: u16,
    /// How far it is; of the last attempt that said so.
    pub progress: Option<Progress>,
    /// What the next attempt is given.
    pub checkpoint: Option<Args>,
    /// The newest lines, oldest first: at most [`Limits::MAX_LOG_LINES`], of [`Limits::MAX_LOG_BYTES`].
    pub log: Vec<LogLine>,
    /// How many older lines were dropped.
    pub log_dropped: u64,
}

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When it was said, by the store's clock.
    pub at: Timestamp,
    /// By which attempt, from 1.
    pub attempt: u16,
    /// What was said.
    pub text: String,
}

impl HandlerReport {
    /// Of a job that nothing was said of.
    pub fn new(at: Timestamp) -> Self {
        Self {
            reported_at: at,
            attempt: 0,
            progress: None,
            checkpoint: None,
            log: Vec::new(),
            log_dropped: 0,
        }
    }

    /// Takes in what is new, `now` by the store's clock. For stores.
    pub fn add(&mut self, new: &JobReport, now: Timestamp) {
        (self.reported_at, self.attempt) = (now, new.attempt);
        if new.progress.is_some() {
            self.progress.clone_from(&new.progress);
        }
        if new.checkpoint.is_some() {
            self.checkpoint.clone_from(&new.checkpoint);
        }
        let line = |entry: &LogEntry| LogLine {
            at: now.checked_sub(entry.age.min(Limits::LONGEST)).unwrap_or(now),
            attempt: new.attempt,
            text: entry.text.clone(),
        };
        self.log.extend(new.log.iter().map(line));
        let excess = self.log.len() - newest(self.log.iter().map(|line| line.text.len()));
        self.log.drain(..excess);
        self.log_dropped += new.dropped + excess as u64;
    }
}

/// How many lines of these sizes, oldest first, are kept: the newest.
fn newest(sizes: impl DoubleEndedIterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= Limits::MAX_LOG_BYTES
    };
    sizes.rev().take(Limits::MAX_LOG_LINES).take_while(fits).count()
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: impl IntoIterator<Item = String>) -> JobReport {
        let log = lines.into_iter().map(|text| LogEntry { age: Duration::from_secs(1), text }).collect();
        JobReport {
            claim: ClaimRef(1, 1),
            job: JobId(1),
            position: 0,
            attempt: 1,
            number: 1,
            progress: None,
            checkpoint: None,
            log,
            dropped: 0,
        }
    }

    #[test]
    fn progress_is_checked() {
        for good in [0.0, 33.3, 100.0] {
            Progress::from(good).check().unwrap();
        }
        for (percent, says) in [(-0.1, "-0.1"), (100.1, "100.1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let error = Progress::from(percent).check().unwrap_err();
            assert_eq!(error.to_string(), format!("progress must be 0 to 100 (per cent), got {says}"));
        }
        let note = "x".repeat(Limits::MAX_NOTE_BYTES);
        Progress::from((1.0, note.clone())).check().unwrap();
        assert!(Progress::from((1.0, note + "x")).check().unwrap_err().to_string().contains("1025 bytes"));
        assert!(Progress::from((1.0, "a\0")).check().unwrap_err().to_string().contains("byte 1"));
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let now = Timestamp::from_second(1_000).unwrap();
        let mut stored = HandlerReport::new(now);
        for batch in 0..3 {
            stored.add(&report((0..60).map(|n| format!("{batch} {n}"))), now);
        }
        assert_eq!((stored.log.len(), stored.log_dropped), (Limits::MAX_LOG_LINES, 80));
        assert_eq!((stored.log[0].text.as_str(), stored.log[99].text.as_str()), ("1 20", "2 59"));
        assert_eq!(stored.log[0].at, Timestamp::from_second(999).unwrap());

        let long = "x".repeat(Limits::MAX_LOG_LINE_BYTES);
        stored.add(&report(vec![long; 20]), now);
        let fit = Limits::MAX_LOG_BYTES / Limits::MAX_LOG_LINE_BYTES;
        assert_eq!((stored.log.len(), stored.log_dropped), (fit, 80 + 120 - fit as u64));
    }

    #[test]
    fn what_is_not_said_stays() {
        let now = Timestamp::UNIX_EPOCH;
        let mut stored = HandlerReport::new(now);
        let checkpoint = Some(Args::parse("7").unwrap());
        stored.add(&JobReport { checkpoint: checkpoint.clone(), ..report([]) }, now);
        let progress = Some(Progress::from(5.0));
        stored.add(&JobReport { progress: progress.clone(), attempt: 2, dropped: 3, ..report([]) }, now);
        assert_eq!((&stored.checkpoint, &stored.progress), (&checkpoint, &progress));
        assert_eq!((stored.attempt, stored.log_dropped), (2, 3));
    }

    #[test]
    fn reports_are_checked() {
        let check = |report| ReportRequest { worker: WorkerId(1), reports: vec![report] }.check();
        check(report(["fine".to_owned()])).unwrap();
        assert!(check(report(["a\0".to_owned()])).is_err());
        assert!(check(report(["x".repeat(Limits::MAX_LOG_LINE_BYTES + 1)])).is_err());
        assert!(check(report(vec![String::new(); Limits::MAX_LOG_LINES + 1])).is_err());
        let large = Args::of(&"x".repeat(Limits::MAX_CHECKPOINT_BYTES)).unwrap();
        let error = check(JobReport { checkpoint: Some(large), ..report([]) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgs);
        assert!(error.to_string().contains("the limit is 262144"), "{error}");
    }
}
