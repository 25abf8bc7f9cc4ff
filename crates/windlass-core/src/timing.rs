//! How long jobs wait and run, and why attempts fail: what workers measure.

use crate::{Count, Error, ErrorKind, Failure, Histogram, Result};
use std::collections::HashMap;

/// What a worker measured of the jobs of a queue and kind since it said so last.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// Of which queue.
    pub queue: String,
    /// Of which kind.
    pub kind: String,
    /// How long jobs were available until they were started; of those alone that were available from their enqueue on.
    pub wait: Histogram,
    /// How long attempts took.
    pub run: Histogram,
    /// Attempts that failed, by cause.
    pub failures: Vec<Failure>,
}

impl Timing {
    /// The most that one call takes. A worker sends those of its most frequent queues and kinds, and all others as one of [`Count::ANY`].
    pub const MAX_BATCH: usize = 65;
    /// The most causes that one of them has.
    pub const MAX_FAILURES: usize = 32;
    /// How many queues and kinds a store tells apart in each minute, and later in each quarter of an hour.
    pub const MOST_IN_A_SLOT: usize = 250;

    /// Of this queue and kind, nothing measured.
    pub fn new(queue: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { queue: queue.into(), kind: kind.into(), ..Self::default() }
    }

    /// For stores: checks what one call brings.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for too many at once.
    pub fn check(timings: &[Self]) -> Result<()> {
        let failures = timings.iter().map(|timing| timing.failures.len()).max().unwrap_or(0);
        if timings.len() <= Self::MAX_BATCH && failures <= Self::MAX_FAILURES {
            return Ok(());
        }
        let message = format!(
            "one call brings the timings of at most {} kinds with {} causes of failure each, got {} and {failures}",
            Self::MAX_BATCH,
            Self::MAX_FAILURES,
            timings.len()
        );
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// Adds what was measured by another worker, or later.
    pub fn merge(&mut self, later: &Self) {
        self.wait.merge(&later.wait);
        self.run.merge(&later.run);
        for failure in &later.failures {
            match self.failures.iter_mut().find(|known| known.fingerprint == failure.fingerprint) {
                None => self.failures.push(failure.clone()),
                Some(known) => known.merge(failure),
            }
        }
    }

    /// Leaves the most frequent `most` as they are, and makes one of the others.
    #[must_use]
    pub fn bounded(mut timings: Vec<Self>, most: usize) -> Vec<Self> {
        if timings.len() > most {
            timings.sort_by_cached_key(|timing| (std::cmp::Reverse(timing.run.count()), timing.key()));
            let mut other = Self::new(Count::ANY, Count::ANY);
            timings.drain(most..).for_each(|timing| other.merge(&timing));
            match timings.iter_mut().find(|timing| timing.key() == other.key()) {
                Some(known) => known.merge(&other),
                None => timings.push(other),
            }
        }
        for timing in &mut timings {
            timing.bound_failures();
        }
        timings
    }

    /// Leaves the most frequent causes as they are, and makes one of the others.
    pub fn bound_failures(&mut self) {
        if self.failures.len() > Self::MAX_FAILURES {
            let is_other = |failure: &Failure| failure.fingerprint == Count::ANY;
            self.failures.sort_by_key(|failure| (is_other(failure), std::cmp::Reverse(failure.count)));
            let rest = self.failures.split_off(Self::MAX_FAILURES - 1);
            self.failures.extend(Failure::of_the_rest(rest.iter()));
        }
    }

    /// One for each queue and kind.
    #[must_use]
    pub fn merged(timings: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut by_key: HashMap<(String, String), Self> = HashMap::new();
        for timing in timings {
            match by_key.get_mut(&timing.key()) {
                Some(known) => known.merge(&timing),
                None => _ = by_key.insert(timing.key(), timing),
            }
        }
        by_key.into_values().collect()
    }

    fn key(&self) -> (String, String) {
        (self.queue.clone(), self.kind.clone())
    }
}

#[cfg(test)]
#[path = "timing_tests.rs"]
mod tests;
