//! Whose turn it is among the keys of a lane: start-time fair queueing.

use std::collections::HashMap;

/// What a job of weight 1 takes of virtual time.
const JOB: u64 = 1 << 20;

/// The virtual time of a lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// When the job that was handed out last began.
    now: u64,
    /// When the last job of each key ended, where that is not past. Those without a key are under the empty one.
    ends: HashMap<String, u64>,
}

impl Turns {
    /// When the next job of a key begins: the lowest goes first. A key that comes (back) begins now, without credit for
    /// its absence.
    pub(crate) fn next(&self, key: Option<&str>) -> u64 {
        self.ends.get(key.unwrap_or_default()).map_or(self.now, |end| self.now.max(*end))
    }

    /// Hands out a job of a key.
    pub(crate) fn take(&mut self, key: Option<&str>, weight: u16) {
        self.now = self.next(key);
        self.ends.insert(key.unwrap_or_default().to_owned(), self.now + JOB / u64::from(weight));
    }

    /// Forgets what is past.
    pub(crate) fn forget_past(&mut self) {
        self.ends.retain(|_, end| *end > self.now);
    }

    /// Forgets keys.
    pub(crate) fn retain(&mut self, has: impl Fn(&str) -> bool) {
        self.ends.retain(|key, _| has(key));
    }
}
