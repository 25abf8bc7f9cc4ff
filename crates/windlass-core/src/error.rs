use std::{any::Any, error::Error as StdError, fmt};

/// How many sources of an error are looked at: one may lead back to itself.
const MAX_SOURCES: usize = 64;

/// The result of every fallible call in Windlass.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The one error type of Windlass: a [kind](ErrorKind) to branch on, a message to read, and the cause.
///
/// Messages are lowercase fragments that say what was wrong, with which value, and what to do.
///
/// ```
/// use windlass_core::{Args, ErrorKind};
/// let error = Args::parse("{oops").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgs);
/// assert_eq!(error.code(), "invalid_args");
/// assert!(error.is_invalid_input());
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Which of how many jobs of a call it is about.
    place: Option<(usize, usize)>,
    /// What a call that names several jobs answered of some of them before it failed.
    replies: Option<Box<dyn Any + Send + Sync>>,
    holder: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What went wrong, as a closed list with stable codes. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Args are not JSON, too large, nested too deep, or contain NUL.
    InvalidArgs,
    /// A queue, kind or schema name breaks the rules.
    InvalidName,
    /// An option or parameter is out of range or malformed, a store URL among them.
    InvalidOption,
    /// A [unique](crate::Unique) job that is not to be enqueued twice: another has its key.
    UniqueConflict,
    /// The named job, queue or worker does not exist.
    NotFound,
    /// The store cannot be reached now; the same call may succeed later. Nothing was changed, but for [what it says](Error::replies) of a call that names several jobs.
    Unavailable,
    /// The connection broke after a write was sent: it may or may not have happened.
    Ambiguous,
    /// The worker's lease was taken away: its writes are refused for good.
    LeaseLost,
    /// The store is not migrated yet.
    SchemaMissing,
    /// The store's schema is newer than this binary.
    SchemaTooNew,
    /// The store's schema is older than this binary needs.
    SchemaTooOld,
    /// The user of the store lacks a privilege.
    PermissionDenied,
    /// The store's disk is full or the file cannot grow.
    StorageFull,
    /// Encrypted data cannot be read here: its key is missing, or it was changed.
    Undecryptable,
    /// Events behind the consumer's cursor were removed, or the cursor is of another log.
    EventsExpired,
    /// The store does not have this capability.
    Unsupported,
    /// A defect in Windlass or a damaged store. Please report it.
    Internal,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::InvalidArgs,
        Self::InvalidName,
        Self::InvalidOption,
        Self::UniqueConflict,
        Self::NotFound,
        Self::Unavailable,
        Self::Ambiguous,
        Self::LeaseLost,
        Self::SchemaMissing,
        Self::SchemaTooNew,
        Self::SchemaTooOld,
        Self::PermissionDenied,
        Self::StorageFull,
        Self::Undecryptable,
        Self::EventsExpired,
        Self::Unsupported,
        Self::Internal,
    ];

    /// The stable, machine-readable name: used by the CLI's `--json`, logs and the SDKs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidArgs => "invalid_args",
            Self::InvalidName => "invalid_name",
            Self::InvalidOption => "invalid_option",
            Self::UniqueConflict => "unique_conflict",
            Self::NotFound => "not_found",
            Self::Unavailable => "unavailable",
            Self::Ambiguous => "ambiguous",
            Self::LeaseLost => "lease_lost",
            Self::SchemaMissing => "schema_missing",
            Self::SchemaTooNew => "schema_too_new",
            Self::SchemaTooOld => "schema_too_old",
            Self::PermissionDenied => "permission_denied",
            Self::StorageFull => "storage_full",
            Self::Undecryptable => "undecryptable",
            Self::EventsExpired => "events_expired",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }
}

impl Error {
    /// An error of `kind` with a message for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, replies: None, holder: None, source: None }
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error, about the job at this index, from 0, of those of a call that enqueues all of them or none.
    #[must_use]
    pub fn of_job(mut self, index: usize, count: usize) -> Self {
        self.place = (count > 1).then_some((index, count));
        self
    }

    /// The index, from 0, of the job that it is about, when a call had several.
    pub fn job_index(&self) -> Option<usize> {
        self.place.map(|(index, _)| index)
    }

    /// For stores: the same error, of a call that names several jobs and had these replies by then, in the order of the jobs. Says of how many it had one.
    #[must_use]
    pub fn with_replies<R: Send + Sync + 'static>(mut self, replies: Vec<Option<R>>) -> Self {
        let had = replies.iter().flatten().count();
        if had > 0 {
            self.message = format!("{}; {had} of {} were done", self.message, replies.len());
            self.replies = Some(Box::new(replies));
        }
        self
    }

    /// What became of the jobs that a call named before it failed, in their order; `None` of those that it did not come to. Empty where it came to none. `R` is the call's
    /// reply, such as [`CancelReply`](crate::CancelReply).
    ///
    /// ```
    /// use windlass_core::{CancelReply, Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Unavailable, "cancel: no answer");
    /// assert!(error.replies::<CancelReply>().is_empty());
    /// let error = error.with_replies(vec![Some(CancelReply::Cancelled), None]);
    /// assert_eq!(error.replies(), [Some(CancelReply::Cancelled), None]);
    /// assert_eq!(error.to_string(), "cancel: no answer; 1 of 2 were done");
    /// ```
    pub fn replies<R: 'static>(&self) -> &[Option<R>] {
        self.replies
            .as_ref()
            .and_then(|replies| replies.downcast_ref::<Vec<Option<R>>>())
            .map_or(&[], |replies| replies)
    }

    /// For stores: the same error, of a call that waited in vain for what others hold. Says what holds it, and what to do about that.
    #[must_use]
    pub fn with_holder(mut self, holder: &'static str) -> Self {
        self.holder = Some(holder);
        self
    }

    /// What holds what the call waited for, and what to do about that. The store is well then: other jobs may be had.
    pub fn holder(&self) -> Option<&'static str> {
        self.holder
    }

    /// What went wrong, without saying which job of the call it is about.
    pub fn reason(&self) -> &str {
        &self.message
    }

    /// What went wrong, to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code of [`Self::kind`].
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Whether repeating the same call later can succeed without anybody changing anything.
    /// An ambiguous write is not retryable blindly: it may have happened.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::StorageFull)
    }

    /// Whether a write may or may not have happened.
    pub fn is_ambiguous(&self) -> bool {
        self.kind == ErrorKind::Ambiguous
    }

    /// Whether the connection to the store is gone: the worker reconnects on these.
    pub fn is_connection_loss(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Ambiguous)
    }

    /// Whether the worker lost its lease.
    pub fn is_lease_lost(&self) -> bool {
        self.kind == ErrorKind::LeaseLost
    }

    /// Whether the caller's input was refused.
    pub fn is_invalid_input(&self) -> bool {
        matches!(self.kind, ErrorKind::InvalidArgs | ErrorKind::InvalidName | ErrorKind::InvalidOption)
    }

    /// Whether the store's schema does not fit this binary.
    pub fn is_schema_mismatch(&self) -> bool {
        matches!(self.kind, ErrorKind::SchemaMissing | ErrorKind::SchemaTooNew | ErrorKind::SchemaTooOld)
    }
}

/// An error with its sources, on one line. A source that its error names itself is not repeated.
pub(crate) fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for source in std::iter::successors(error.source(), |source| StdError::source(*source)).take(MAX_SOURCES)
    {
        let source = source.to_string();
        if !text.contains(&source) {
            text.push_str(": ");
            text.push_str(&source);
        }
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            None => f.write_str(&self.message),
            Some((index, count)) => {
                write!(f, "job {index} of {count}: {}; nothing was enqueued", self.message)
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The kind that comes after this one; a new kind does not compile until it is here.
    fn after(kind: ErrorKind) -> Option<ErrorKind> {
        use ErrorKind::*;
        Some(match kind {
            InvalidArgs => InvalidName,
            InvalidName => InvalidOption,
            InvalidOption => UniqueConflict,
            UniqueConflict => NotFound,
            NotFound => Unavailable,
            Unavailable => Ambiguous,
            Ambiguous => LeaseLost,
            LeaseLost => SchemaMissing,
            SchemaMissing => SchemaTooNew,
            SchemaTooNew => SchemaTooOld,
            SchemaTooOld => PermissionDenied,
            PermissionDenied => StorageFull,
            StorageFull => Undecryptable,
            Undecryptable => EventsExpired,
            EventsExpired => Unsupported,
            Unsupported => Internal,
            Internal => return None,
        })
    }

    #[test]
    fn kinds_are_those_that_every_language_has() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../conformance/vectors/errors.json")).unwrap();
        let said = |vector: &Value| {
            json!([vector["code"].clone(), vector["retryable"].clone(), vector["ambiguous"].clone()])
        };
        let all = || std::iter::successors(Some(ErrorKind::InvalidArgs), |kind| after(*kind));
        assert!(all().eq(ErrorKind::ALL));
        let known: Vec<Value> = all()
            .map(|kind| Error::new(kind, ""))
            .map(|error| json!([error.code(), error.is_retryable(), error.is_ambiguous()]))
            .collect();
        assert_eq!(vectors["errors"].as_array().unwrap().iter().map(said).collect::<Vec<_>>(), known);
    }
}
