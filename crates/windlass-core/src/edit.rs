use crate::{Args, Envelope, Error, ErrorKind, Limits, Result, When};
use jiff::Timestamp;
use serde::Serialize;
use std::{fmt, time::Duration};

/// What to change of jobs that do not run: see [`JobStore::edit`](crate::JobStore::edit). What it does not name stays.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::JobEdit;
/// let edit = JobEdit::new().with_delay(Duration::from_secs(600)).with_priority(-5);
/// assert_eq!(edit.priority(), Some(-5));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JobEdit {
    when: Option<When>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    args: Option<Args>,
}

impl JobEdit {
    /// Changes nothing yet; stores refuse it so.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the job available at once.
    #[must_use]
    pub fn with_no_delay(mut self) -> Self {
        self.when = Some(When::Now);
        self
    }

    /// Makes the job available at a time; one in the past means at once.
    #[must_use]
    pub fn with_scheduled_at(mut self, at: Timestamp) -> Self {
        self.when = Some(When::At(at));
        self
    }

    /// Makes the job available after a delay of at most 100 years, counted by the store's clock from now.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.when = Some(When::After(delay));
        self
    }

    /// Moves the job to a queue; it is created on first use.
    #[must_use]
    pub fn with_queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the priority, -100 to 100; lower runs first.
    #[must_use]
    pub fn with_priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets how often the job is tried at most, the attempts it has used included. One that has used as many gets one more.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u16) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the args. Encrypted ones are not replaced.
    #[must_use]
    pub fn with_args(mut self, args: Args) -> Self {
        self.args = Some(args);
        self
    }

    /// When the job is to become available, if that changes.
    pub fn when(&self) -> Option<When> {
        self.when
    }

    /// The new queue, if that changes.
    pub fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// The new priority, if that changes.
    pub fn priority(&self) -> Option<i16> {
        self.priority
    }

    /// The new number of attempts, if that changes.
    pub fn max_attempts(&self) -> Option<u16> {
        self.max_attempts
    }

    /// The new args, if they change.
    pub fn args(&self) -> Option<&Args> {
        self.args.as_ref()
    }

    /// What it changes, as the audit log has it: of args only that they change.
    pub fn noted(&self) -> serde_json::Value {
        let mut noted = serde_json::Map::new();
        let mut note = |name: &str, value: Option<serde_json::Value>| {
            noted.extend(value.map(|value| (name.to_owned(), value)));
        };
        match self.when {
            Some(When::Now) => note("now", Some(true.into())),
            Some(When::After(delay)) => {
                note("delay_ms", u64::try_from(delay.as_millis()).ok().map(Into::into));
            }
            Some(When::At(at)) => note("scheduled_at", Some(at.to_string().into())),
            None => {}
        }
        note("queue", self.queue().map(Into::into));
        note("priority", self.priority.map(Into::into));
        note("max_attempts", self.max_attempts.map(Into::into));
        note("args", self.args.as_ref().map(|_| "changed".into()));
        noted.into()
    }

    /// Checks it; a store calls this before it changes the first job.
    ///
    /// # Errors
    /// As an enqueue of such a job, and [`ErrorKind::InvalidOption`] when it changes nothing.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        if *self == Self::default() {
            let message = "the edit changes nothing; name a time, a queue, a priority, max_attempts or args";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        self.queue().map_or(Ok(()), Limits::check_queue_name)?;
        self.priority.map_or(Ok(()), Limits::check_priority)?;
        self.max_attempts.map_or(Ok(()), Limits::check_max_attempts)?;
        self.when.map_or(Ok(()), Limits::check_when)?;
        let Some(args) = &self.args else { return Ok(()) };
        if Envelope::is_one(args.as_str().as_bytes()) {
            let message =
                "args cannot be set to an encrypted envelope: it is sealed for one job; enqueue another job";
            return Err(Error::new(ErrorKind::InvalidArgs, message));
        }
        limits.check_args("the edit", args)
    }
}

/// Without the args, which may be secret.
impl fmt::Debug for JobEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobEdit")
            .field("when", &self.when)
            .field("queue", &self.queue)
            .field("priority", &self.priority)
            .field("max_attempts", &self.max_attempts)
            .field("args", &self.args.as_ref().map(|args| format!("[{} bytes]", args.len())))
            .finish()
    }
}

/// What an edit did, per job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EditReply {
    /// Changed, all of it.
    Edited,
    /// A worker holds it; it was left alone.
    Running,
    /// It completed; or it is dead or cancelled and the edit says when to run, which is a [retry](crate::JobStore::retry)'s
    /// affair. It was left alone.
    Finished,
    /// Its args are encrypted and the edit sets args. It was left alone.
    Encrypted,
    /// It expires before the time that the edit says, or at it: it would never run. It was left alone.
    Expires,
    /// It has used as many attempts as the edit would give it, or more: it would have none left. It was left alone. To end it is a
    /// [cancel](crate::JobStore::cancel)'s affair; a dead one gets its attempts anew when it is retried.
    AttemptsUsed,
    /// No such job, or its history was removed.
    NotFound,
}

/// What a deletion did, per job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteReply {
    /// Gone, with the errors of its attempts.
    Deleted,
    /// A worker holds it; it was left alone.
    Running,
    /// It completed; it goes with the [retention](crate::Settings::retention) of such jobs.
    Completed,
    /// No such job, or its history was removed.
    NotFound,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_checked_like_a_job() {
        let limits = Limits { max_args_bytes: 8 };
        let good =
            JobEdit::new().with_args(Args::parse("[1,2,3]").unwrap()).with_queue("q").with_max_attempts(1);
        good.check(&limits).unwrap();
        let sealed = Args::parse(r#"{"windlass.enc":{}}"#).unwrap();
        for (edit, kind, says) in [
            (JobEdit::new(), ErrorKind::InvalidOption, "changes nothing"),
            (JobEdit::new().with_queue("a b"), ErrorKind::InvalidName, "a b"),
            (JobEdit::new().with_priority(101), ErrorKind::InvalidOption, "got 101"),
            (JobEdit::new().with_max_attempts(0), ErrorKind::InvalidOption, "got 0"),
            (JobEdit::new().with_delay(Duration::MAX), ErrorKind::InvalidOption, "at most 100 years"),
            (JobEdit::new().with_args(Args::parse("[1,2,3,4]").unwrap()), ErrorKind::InvalidArgs, "9 bytes"),
            (JobEdit::new().with_args(sealed), ErrorKind::InvalidArgs, "envelope"),
        ] {
            let error = edit.check(&limits).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn args_are_not_shown() {
        let shown = format!("{:?}", JobEdit::new().with_args(Args::parse("\"secret\"").unwrap()));
        assert!(shown.contains("8 bytes") && !shown.contains("secret"), "{shown}");
    }
}
