//! How far a queue runner claims ahead, and how long what it claimed may wait: see `overfull.rs`.

use crate::estimate::{Prefetch, RoundTrip};
use std::time::Duration;

/// How long a job that could start waits for a place before it goes back, at least. Also how often to look at most.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
/// And at least so many round trips of claims: twice of what is claimed ahead for.
const ROUND_TRIPS: u32 = 8;
/// A worker that handed jobs back claims ahead again one for so many that it finishes, until that is what its pace says.
const FINISHED_PER_JOB: u64 = 8;

/// How far a queue runner may claim ahead.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// How many jobs had finished when it last handed some back; `None` when its pace alone decides.
    handed_back_at: Option<u64>,
    /// How long a claim takes.
    trip: Duration,
}

impl Ahead {
    /// So much of what the pace says. At bursts of long jobs' ends it says too much, time and again.
    pub(crate) fn admits(&mut self, pace: Prefetch, trip: RoundTrip, finished: u64) -> Prefetch {
        self.trip = trip.duration();
        let Some(most) = self.most(finished) else { return pace };
        let admitted = pace.at_most(most);
        if admitted == pace && pace.full > 0 {
            self.handed_back_at = None;
        }
        admitted
    }

    /// So many jobs have finished, and some go back.
    pub(crate) fn handed_back(&mut self, finished: u64) {
        self.handed_back_at = Some(finished);
    }

    /// How many jobs at most, where that is not up to the pace.
    pub(crate) fn most(&self, finished: u64) -> Option<usize> {
        self.handed_back_at.map(|then| ((finished - then) / FINISHED_PER_JOB) as usize)
    }

    /// How long a job that could start waits for a place.
    pub(crate) fn patience(&self) -> Duration {
        (self.trip * ROUND_TRIPS).max(PATIENCE)
    }
}
