mod attributes;

use crate::{Args, Error, ErrorKind, NewJob, Result, RetryPolicy, When};
use std::{fmt, time::Duration};

/// Bounds on what may be enqueued. Checked by every store before anything is written.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest size of a job's args, in bytes of JSON text. Default 1 MiB.
    pub max_args_bytes: usize,
}

impl Limits {
    /// The longest queue name, in bytes.
    pub const MAX_QUEUE_BYTES: usize = 128;
    /// The longest kind, in bytes.
    pub const MAX_KIND_BYTES: usize = 200;
    /// The longest idempotency key, in bytes.
    pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 200;
    /// The largest size of a job's [`meta`](crate::Attributes::meta), in bytes of JSON text.
    pub const MAX_META_BYTES: usize = 8 * 1024;
    /// The most tags of a job.
    pub const MAX_TAGS: usize = 20;
    /// The longest tag, in bytes.
    pub const MAX_TAG_BYTES: usize = 100;
    /// The highest [cost](crate::Attributes::cost) of a job.
    pub const MAX_COST: u32 = 1_000_000;
    /// The largest size of what a handler returns, in bytes of JSON text.
    pub const MAX_RESULT_BYTES: usize = 1024 * 1024;
    /// The largest size of a [checkpoint](crate::JobReport::checkpoint), in bytes of JSON text, as it is stored.
    pub const MAX_CHECKPOINT_BYTES: usize = 256 * 1024;
    /// The longest note of a [progress](crate::Progress), in bytes.
    pub const MAX_NOTE_BYTES: usize = 1024;
    /// The most lines that are kept of a job's log; the newest are.
    pub const MAX_LOG_LINES: usize = 100;
    /// The longest line of a job's log, in bytes; the rest is cut off.
    pub const MAX_LOG_LINE_BYTES: usize = 4 * 1024;
    /// The most bytes of lines that are kept of a job's log.
    pub const MAX_LOG_BYTES: usize = 64 * 1024;
    /// The best priority: the lower number goes first. Each priority that a queue uses costs its claims a little.
    pub const PRIORITY_MIN: i16 = -100;
    /// The worst priority.
    pub const PRIORITY_MAX: i16 = 100;
    /// The most attempts that a job may have.
    pub const MAX_ATTEMPTS: u16 = 1_000;
    /// The furthest that a job may be scheduled or put off, in seconds: 100 years.
    pub const MAX_DELAY_SECONDS: u64 = 100 * 366 * 86_400;
    /// The same, as a duration. Nothing takes longer: no timeout either.
    pub const LONGEST: Duration = Duration::from_secs(Self::MAX_DELAY_SECONDS);
    /// The longest error text that is stored of a failed attempt, in bytes; the rest is cut off.
    pub const MAX_ERROR_BYTES: usize = 16 * 1024;

    /// Checks every job of a batch; a store calls this before it writes the first.
    ///
    /// # Errors
    /// The first job's offence, with its index in the batch when there are several.
    pub fn check(&self, jobs: &[NewJob]) -> Result<()> {
        for (index, job) in jobs.iter().enumerate() {
            self.check_one(job).map_err(|error| error.of_job(index, jobs.len()))?;
        }
        Ok(())
    }

    fn check_one(&self, job: &NewJob) -> Result<()> {
        check_queue(job.queue())?;
        check_kind(job.kind())?;
        if job.needs_encryption() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!(
                    "args of kind {:?} have to be encrypted first; enqueue them by a client with keys (Client::with_keyring)",
                    job.kind()
                ),
            ));
        }
        self.check_args(format_args!("kind {:?}", job.kind()), job.args())?;
        Self::check_priority(job.priority())?;
        Self::check_max_attempts(job.max_attempts())?;
        Self::check_when(job.when())?;
        job.attributes().map_or(Ok(()), |attributes| attributes::check(attributes, job.when()))
    }

    /// Checks when a job is to become available. Any time is fine: one long past is now.
    pub(crate) fn check_when(when: When) -> Result<()> {
        match when {
            When::After(delay) if delay > Self::LONGEST => {
                let message = format!("delay must be at most 100 years, got {delay:?}");
                Err(Error::new(ErrorKind::InvalidOption, message))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what nothing can be called and some stores cannot even look for; `what` names it in messages.
    pub(crate) fn check_no_nul(what: &str, texts: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        for text in texts {
            if let Some(position) = text.as_ref().bytes().position(|byte| byte == 0) {
                let message = format!("{what} must not contain NUL, got one at byte {position}");
                return Err(Error::new(ErrorKind::InvalidOption, message));
            }
        }
        Ok(())
    }

    /// Checks the size of args; `of` names whose they are in the message, and is not put together without one.
    pub(crate) fn check_args(&self, of: impl fmt::Display, args: &Args) -> Result<()> {
        let (size, most) = (args.len(), self.max_args_bytes);
        if size <= most {
            return Ok(());
        }
        let message = format!(
            "args of {of} are {size} bytes, the limit is {most}; store large data elsewhere and pass a reference"
        );
        Err(Error::new(ErrorKind::InvalidArgs, message))
    }

    pub(crate) fn check_priority(priority: i16) -> Result<()> {
        if (Self::PRIORITY_MIN..=Self::PRIORITY_MAX).contains(&priority) {
            return Ok(());
        }
        let (min, max) = (Self::PRIORITY_MIN, Self::PRIORITY_MAX);
        Err(Error::new(ErrorKind::InvalidOption, format!("priority must be {min} to {max}, got {priority}")))
    }

    pub(crate) fn check_max_attempts(max_attempts: u16) -> Result<()> {
        if (1..=Self::MAX_ATTEMPTS).contains(&max_attempts) {
            return Ok(());
        }
        let message = format!("max_attempts must be 1 to {}, got {max_attempts}", Self::MAX_ATTEMPTS);
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// Checks how long an attempt may take: what workers and kinds say may be for ever, but not nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn check_timeout(timeout: Duration) -> Result<()> {
        if timeout.is_zero() {
            let message = "a timeout of 0 leaves no time for the job".to_owned();
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(())
    }

    /// Checks when failed attempts are tried again.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], naming the field and its value.
    pub fn check_retry_policy(policy: &RetryPolicy) -> Result<()> {
        attributes::check_retry_policy(policy)
    }

    /// Checks a queue name: 1 to 128 of letters, digits and `_ - . : /`, but not `.` or `..`, which no path can name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`].
    pub fn check_queue_name(name: &str) -> Result<()> {
        check_queue(name)
    }

    /// There is no queue of this name.
    pub fn unknown_queue(name: &str) -> Error {
        let message =
            format!("queue {name:?} does not exist; a queue exists once a job or a worker named it");
        Error::new(ErrorKind::NotFound, message)
    }

    /// Checks a kind: 1 to 200 bytes without spaces or control characters.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`].
    pub fn check_kind_name(kind: &str) -> Result<()> {
        check_kind(kind)
    }

    /// Checks a tag: 1 to 100 bytes without control characters.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`].
    pub fn check_tag(tag: &str) -> Result<()> {
        attributes::check_tag(tag)
    }

    /// Checks an idempotency key: 1 to 200 bytes, no NUL. Any other text is fine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the key's length.
    pub fn check_idempotency_key(key: &str) -> Result<()> {
        Self::check_key("an idempotency key", key)
    }

    /// Checks a key; `what` names it in messages.
    pub(crate) fn check_key(what: &str, key: &str) -> Result<()> {
        let most = Self::MAX_IDEMPOTENCY_KEY_BYTES;
        if !(1..=most).contains(&key.len()) {
            let message = format!("{what} must be 1 to {most} bytes, got {}; hash what is longer", key.len());
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Self::check_no_nul(what, [key])
    }

    /// Checks the size of a checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`], which names its size.
    pub fn check_checkpoint(checkpoint: &Args) -> Result<()> {
        let (size, most) = (checkpoint.len(), Self::MAX_CHECKPOINT_BYTES);
        if size <= most {
            return Ok(());
        }
        let message = format!(
            "the checkpoint is {size} bytes, the limit is {most}; store large data elsewhere and keep a reference"
        );
        Err(Error::new(ErrorKind::InvalidArgs, message))
    }

    /// Cuts an error text to what every store can keep: no NUL, at most [`Self::MAX_ERROR_BYTES`].
    pub fn storable_error(text: &str) -> String {
        storable(text, Self::MAX_ERROR_BYTES)
    }

    /// Cuts a line of a job's log to what every store can keep: no NUL, at most [`Self::MAX_LOG_LINE_BYTES`]. One that was
    /// cut says so.
    ///
    /// ```
    /// use windlass_core::Limits;
    /// assert_eq!(Limits::storable_line("page 4"), "page 4");
    /// let cut = Limits::storable_line(&"x".repeat(5_000));
    /// assert!(cut.ends_with("xx… (cut: 5000 bytes)") && cut.len() <= Limits::MAX_LOG_LINE_BYTES);
    /// ```
    pub fn storable_line(text: &str) -> String {
        let kept = storable(text, Self::MAX_LOG_LINE_BYTES);
        if text.len() <= Self::MAX_LOG_LINE_BYTES && kept.chars().count() == text.chars().count() {
            return kept;
        }
        let note = format!("… (cut: {} bytes)", text.len());
        storable(text, Self::MAX_LOG_LINE_BYTES - note.len()) + &note
    }
}

/// As much of a text as fits, without NUL.
pub(crate) fn storable(text: &str, most: usize) -> String {
    let mut kept = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        let character = if character == '\0' { '\u{fffd}' } else { character };
        if kept.len() + character.len_utf8() > most {
            break;
        }
        kept.push(character);
    }
    kept
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_args_bytes: 1024 * 1024 }
    }
}

fn check_queue(name: &str) -> Result<()> {
    let fits = (1..=Limits::MAX_QUEUE_BYTES).contains(&name.len());
    let how = match name {
        name if is_folder(name) => NO_PATH.to_owned(),
        _ if fits && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/".contains(&b)) => {
            return Ok(());
        }
        _ => format!("use 1 to {} of letters, digits and _ - . : /", Limits::MAX_QUEUE_BYTES),
    };
    Err(Error::new(ErrorKind::InvalidName, format!("invalid queue name {:?}; {how}", shorten(name))))
}

/// Why a name is refused that is one of these.
pub(crate) const NO_PATH: &str =
    "browsers and proxies take it out of a path, so no page could show it; use another";

/// Whether it is what paths call a folder, however it is escaped.
pub(crate) fn is_folder(name: &str) -> bool {
    matches!(name, "." | "..")
}

fn check_kind(kind: &str) -> Result<()> {
    let fits = (1..=Limits::MAX_KIND_BYTES).contains(&kind.len());
    if fits && !kind.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidName,
        format!(
            "invalid kind {:?}; use 1 to {} bytes without spaces or control characters",
            shorten(kind),
            Limits::MAX_KIND_BYTES
        ),
    ))
}

pub(crate) fn shorten(name: &str) -> String {
    match name.chars().count() {
        0..=64 => name.to_owned(),
        n => format!("{}… ({n} characters)", name.chars().take(64).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: &str, queue: &str) -> NewJob {
        NewJob::new(kind.to_owned(), Args::parse("1").unwrap()).with_queue(queue.to_owned())
    }

    #[test]
    fn names_follow_the_rules() {
        let limits = Limits::default();
        for queue in ["eu/mail:high-1_x", "...", ".x", "../x", "a/.."] {
            limits.check(&[job("mail.send", queue)]).unwrap();
        }
        for queue in ["", "a b", "ä", "a;b", "a'b", "\0", ".", "..", &"q".repeat(129)] {
            let error = limits.check(&[job("k", queue)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{queue:?}");
        }
        for kind in ["", "a b", "a\n", "\0", &"k".repeat(201)] {
            assert_eq!(limits.check(&[job(kind, "q")]).unwrap_err().kind(), ErrorKind::InvalidName);
        }
    }

    #[test]
    fn a_batch_names_the_offender() {
        let limits = Limits { max_args_bytes: 3 };
        let big = NewJob::new("k", Args::parse("12345").unwrap());
        let error = limits.check(&[job("k", "q"), big]).unwrap_err();
        assert!(error.to_string().starts_with("job 1 of 2: args of kind \"k\" are 5 bytes"), "{error}");
        assert!(limits.check(&[job("k", "q").with_max_attempts(0)]).is_err());
    }

    #[test]
    fn what_is_to_be_encrypted_is_never_stored_as_it_is() {
        let plain = NewJob::new("k", Args::parse("\"secret\"").unwrap()).with_encryption();
        assert!(!format!("{plain:?}").contains("secret"), "{plain:?}");
        let error = Limits::default().check(std::slice::from_ref(&plain)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(
            !error.to_string().contains("secret") && error.to_string().contains("with_keyring"),
            "{error}"
        );
        let envelope = Args::parse(r#"{"windlass.enc":{}}"#).unwrap();
        Limits::default().check(&[plain.with_envelope(envelope)]).unwrap();
    }

    #[test]
    fn priorities_are_bounded() {
        let limits = Limits::default();
        let at = |priority| limits.check(&[job("k", "q").with_priority(priority)]);
        for priority in [Limits::PRIORITY_MIN, 0, Limits::PRIORITY_MAX] {
            at(priority).unwrap();
        }
        for priority in [i16::MIN, -101, 101, i16::MAX] {
            let error = at(priority).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert_eq!(error.to_string(), format!("priority must be -100 to 100, got {priority}"));
        }
    }

    #[test]
    fn keys_are_bounded() {
        for key in ["k", "ä\n\"'", &"k".repeat(200)] {
            Limits::check_idempotency_key(key).unwrap();
        }
        for (key, says) in [("", "got 0"), (&*"ä".repeat(101), "got 202"), ("a\0b", "byte 1")] {
            let error = Limits::check_idempotency_key(key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn error_text_is_made_storable() {
        assert_eq!(Limits::storable_error("a\0b"), "a\u{fffd}b");
        for long in ["ä", "\0", "x"].map(|piece| piece.repeat(Limits::MAX_ERROR_BYTES)) {
            let kept = Limits::storable_error(&long).len();
            assert!((Limits::MAX_ERROR_BYTES - 2..=Limits::MAX_ERROR_BYTES).contains(&kept), "{kept} bytes");
        }
    }
}
