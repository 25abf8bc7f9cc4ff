use crate::{Args, error::with_causes};
use serde::Serialize;
use std::{error::Error as StdError, time::Duration};

/// What a handler says about its job. A value, not an exception.
///
/// Errors convert to [`Outcome::Retry`] with backoff, a panic counts as an error. Only `Retry` uses up
/// an attempt and counts towards `max_attempts`; a job that is out of attempts is discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done, with a result for whoever asks for it, or without.
    Complete(Option<Args>),
    /// Failed; try again after this delay, or after the retry policy's backoff when `None`.
    Retry {
        /// How long to wait, as of [`Self::Snooze`]; `None` asks the retry policy.
        after: Option<Duration>,
        /// What went wrong, kept with the job.
        error: String,
    },
    /// Not now: run again later, at most 100 years from now: what is longer is taken for that. Uses up no attempt.
    Snooze(Duration),
    /// Its args are encrypted and this worker lacks the key: wait for a worker that has it. Uses up no attempt. What
    /// handlers are never asked about; the façade says it.
    Undecryptable {
        /// How long until a worker looks at the job again.
        after: Duration,
        /// What is missing, kept with the job; the same text is kept once for each attempt.
        error: String,
    },
    /// Give up on purpose: the job is no longer wanted.
    Cancel(String),
    /// Give up because it can never succeed: the job is dead and stays readable.
    Discard(String),
}

impl Outcome {
    /// Done, with a result: any value that serialises to JSON. A result that does not, or is larger than
    /// [`Limits::MAX_RESULT_BYTES`](crate::Limits::MAX_RESULT_BYTES), discards the job: trying again would not help.
    ///
    /// ```
    /// use windlass_core::{Args, Outcome};
    /// let outcome = Outcome::complete_with(&vec![1, 2]);
    /// assert_eq!(outcome, Outcome::Complete(Some(Args::parse("[1,2]").unwrap())));
    /// ```
    pub fn complete_with<T: Serialize + ?Sized>(result: &T) -> Self {
        match Args::of(result) {
            Ok(result) => Self::Complete(Some(result)),
            Err(error) => Self::Discard(format!("the result cannot be stored: {error}")),
        }
    }
}

/// What a handler may return: nothing, an [`Outcome`], or a `Result` of either.
///
/// The error may be any error type that is `Send + Sync`, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or
/// text. It is kept with its sources.
///
/// ```
/// use windlass_core::{IntoOutcome, Outcome};
/// assert_eq!(().into_outcome(), Outcome::Complete(None));
/// let failed: Result<(), &str> = Err("no route");
/// assert_eq!(failed.into_outcome(), Outcome::Retry { after: None, error: "no route".into() });
/// ```
pub trait IntoOutcome {
    /// The outcome that the engine settles the job with.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Complete(None)
    }
}

impl<T: IntoOutcome, E: Into<Box<dyn StdError + Send + Sync>>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Retry { after: None, error: with_causes(&*error.into()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

    fn kept(failed: Result<(), impl Into<Box<dyn StdError + Send + Sync>>>) -> String {
        match failed.into_outcome() {
            Outcome::Retry { after: None, error } => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_is_kept_with_its_sources() {
        let io = || std::io::Error::other("disk on fire");
        let error = |message: &str| Error::new(ErrorKind::Internal, message).with_source(io());
        assert_eq!(kept(Err(error("cannot send"))), "cannot send: disk on fire");
        assert_eq!(kept(Err(error("cannot send (disk on fire)"))), "cannot send (disk on fire)");
        let nested = Error::new(ErrorKind::Internal, "mail").with_source(error("cannot send"));
        assert_eq!(kept(Err(nested)), "mail: cannot send: disk on fire");
        let boxed: Box<dyn StdError + Send + Sync> = Box::new(error("boxed"));
        assert_eq!(kept(Err(boxed)), "boxed: disk on fire");
        assert_eq!(kept(Err("text")), "text");
        assert_eq!(kept(Err(format!("no {}", "route"))), "no route");
    }
}
