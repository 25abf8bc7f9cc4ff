//! The order of the queues.

use super::rates::Rated;
use jiff::Timestamp;
use std::{cmp::Reverse, fmt};

/// What queues are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Sort {
    Available,
    Running,
    Scheduled,
    Retryable,
    Discarded,
    Oldest,
    Name,
}

impl Sort {
    const ALL: [Self; 7] = [
        Self::Available,
        Self::Running,
        Self::Scheduled,
        Self::Retryable,
        Self::Discarded,
        Self::Oldest,
        Self::Name,
    ];

    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The most of it first; those that are alike by their names.
    pub(super) fn apply(self, queues: &mut [Rated]) {
        queues.sort_by(|one, other| one.stats.name.cmp(&other.stats.name));
        let count = |Rated { stats, .. }: &Rated| match self {
            Self::Available => stats.available,
            Self::Running => stats.running,
            Self::Scheduled => stats.scheduled,
            Self::Retryable => stats.retryable,
            Self::Discarded => stats.discarded,
            Self::Oldest | Self::Name => 0,
        };
        queues.sort_by_key(|queue| Reverse(count(queue)));
        if self == Self::Oldest {
            queues.sort_by_key(|queue| queue.stats.oldest_available_at.unwrap_or(Timestamp::MAX));
        }
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
