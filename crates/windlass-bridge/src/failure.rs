use std::fmt;
use windlass::{Error, ErrorKind};

/// An error as other languages raise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A stable word to branch on, as `lease_lost`.
    pub code: &'static str,
    /// What was wrong, with which value, and what to do.
    pub message: String,
    /// The same call may succeed later.
    pub retryable: bool,
    /// Whether it happened is not known.
    pub ambiguous: bool,
}

impl Failure {
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error::new(kind, message).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            retryable: error.is_retryable(),
            ambiguous: error.is_ambiguous(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for Failure {}
