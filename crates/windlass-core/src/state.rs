use crate::{Error, ErrorKind};
use std::{fmt, str::FromStr};

/// Where a job is in its life. Derived from the log, never stored per job on the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for its `scheduled_at`.
    Scheduled,
    /// Ready to be claimed.
    Available,
    /// Held by a live worker.
    Running,
    /// Failed at least once, or cannot be decrypted, and waits for its next attempt.
    Retryable,
    /// Done: its settlement is committed.
    Completed,
    /// Cancelled by a user or by its handler.
    Cancelled,
    /// Dead: out of attempts, discarded by its handler, or a crash loop.
    Discarded,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Available,
        Self::Running,
        Self::Retryable,
        Self::Completed,
        Self::Cancelled,
        Self::Discarded,
    ];

    /// The state's name as it is written everywhere: SQL, CLI, JSON, metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Running => "running",
            Self::Retryable => "retryable",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Whether nothing will happen to the job any more by itself.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::InvalidOption, format!("unknown job state {name:?}; use one of {known}"))
        })
    }
}
