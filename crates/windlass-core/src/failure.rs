//! Why attempts fail, by cause.

use crate::{Count, JobId, fingerprint::telling_line, limits};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashMap;

/// Failed attempts with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// [What they have in common](crate::fingerprint()); [`Count::ANY`] of what is not told apart.
    pub fingerprint: String,
    /// The [telling line](crate::telling_line) of the error of [`Self::last_job`], cut.
    pub sample: String,
    /// The newest of the jobs.
    pub last_job: JobId,
    /// How many attempts.
    pub count: u64,
}

impl Failure {
    /// The longest sample, in bytes; what is longer is cut.
    pub const MAX_SAMPLE_BYTES: usize = 200;
    /// How many causes a store tells apart in each minute, and later in each quarter of an hour.
    pub const MOST_IN_A_SLOT: usize = 250;

    /// One attempt that failed with this error.
    pub fn new(kind: &str, job: JobId, error: &str) -> Self {
        let sample = limits::storable(telling_line(error), Self::MAX_SAMPLE_BYTES);
        Self { fingerprint: crate::fingerprint(kind, error), sample, last_job: job, count: 1 }
    }

    /// For stores: failures of one time by queue and kind, put together; of the most frequent [`Self::MOST_IN_A_SLOT`], and all others as one.
    #[must_use]
    pub fn joined(rows: impl IntoIterator<Item = (String, String, Self)>) -> Vec<(String, String, Self)> {
        let mut by_cause: HashMap<(String, String, String), Self> = HashMap::new();
        for (queue, kind, failure) in rows {
            let known = by_cause.entry((queue, kind, failure.fingerprint.clone()));
            known.and_modify(|known| known.merge(&failure)).or_insert(failure);
        }
        let row = |((queue, kind, _), failure): (_, Self)| (queue, kind, failure);
        let mut joined: Vec<_> = by_cause.into_iter().map(row).collect();
        joined.sort_by(|(.., a), (.., b)| {
            b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint))
        });
        let rest = joined.split_off(joined.len().min(Self::MOST_IN_A_SLOT));
        let any = || Count::ANY.to_owned();
        joined.extend(
            Self::of_the_rest(rest.iter().map(|(.., failure)| failure)).map(|rest| (any(), any(), rest)),
        );
        joined
    }

    /// Adds later ones of the same cause.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.count = self.count.saturating_add(later.count);
        if later.last_job >= self.last_job {
            (self.last_job, self.sample) = (later.last_job, later.sample.clone());
        }
    }

    /// These as one that is not told apart.
    pub(crate) fn of_the_rest<'f>(failures: impl Iterator<Item = &'f Self>) -> Option<Self> {
        let mut rest: Option<Self> = None;
        for failure in failures {
            let empty = || Self::stored(Count::ANY.to_owned(), String::new(), failure.last_job, 0);
            let rest = rest.get_or_insert_with(empty);
            rest.count = rest.count.saturating_add(failure.count);
            rest.last_job = rest.last_job.max(failure.last_job);
        }
        rest
    }

    /// As a store has it.
    pub fn stored(fingerprint: String, sample: String, last_job: JobId, count: u64) -> Self {
        Self { fingerprint, sample, last_job, count }
    }
}

/// Failed attempts with one cause, of the time that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailureGroup {
    /// [What they have in common](crate::fingerprint()).
    pub fingerprint: String,
    /// Of which queue; `None`: not told apart.
    pub queue: Option<String>,
    /// Of which kind; `None`: not told apart.
    pub kind: Option<String>,
    /// The [telling line](crate::telling_line) of the error of [`Self::last_job`], cut.
    pub sample: String,
    /// The newest of the jobs.
    pub last_job: JobId,
    /// How many attempts.
    pub count: u64,
    /// The minute, or later the quarter of an hour, in which the first of them failed.
    pub first_at: Timestamp,
    /// Likewise of the last.
    pub last_at: Timestamp,
}

impl FailureGroup {
    /// For stores: from rows of when they begin, queue, kind, and what failed. The most frequent first.
    pub fn of(rows: impl IntoIterator<Item = (Timestamp, String, String, Failure)>) -> Vec<Self> {
        let mut groups: HashMap<(String, String, String), Self> = HashMap::new();
        for (at, queue, kind, failure) in rows {
            let key = (failure.fingerprint.clone(), queue.clone(), kind.clone());
            let Failure { fingerprint, sample, last_job, count } = failure;
            let group = groups.entry(key).or_insert_with(|| Self {
                fingerprint,
                queue: Count::named(queue),
                kind: Count::named(kind),
                sample: String::new(),
                last_job,
                count: 0,
                first_at: at,
                last_at: at,
            });
            if last_job >= group.last_job {
                (group.sample, group.last_job) = (sample, last_job);
            }
            (group.first_at, group.last_at) = (group.first_at.min(at), group.last_at.max(at));
            group.count = group.count.saturating_add(count);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
        groups
    }
}
