use super::holds::Job;
use crate::history::Tick;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A schedule of the run: what the checker has to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticking {
    /// Its number in the run.
    pub schedule: u32,
    /// Seconds between its ticks, counted from 1970.
    pub every_s: u32,
    /// Every tick fires, however late, but for those of a pause.
    pub fires_all: bool,
    /// A job may run while that of the tick before does.
    pub overlaps: bool,
    /// A tick that comes meanwhile fires afterwards, one of them.
    #[serde(default)]
    pub queues: bool,
    /// So many of the ticks that were missed fire, the last ones.
    #[serde(default)]
    pub most_missed: u32,
}

impl Ticking {
    /// Seconds between its ticks.
    pub(super) fn every(&self) -> i64 {
        i64::from(self.every_s.max(1))
    }

    pub(super) fn show(&self, second: i64) -> String {
        show(Tick { schedule: self.schedule, second })
    }
}

/// The job of each tick that fired, by its second.
pub(super) type Fired<'a> = BTreeMap<i64, &'a Job>;

pub(super) fn show(tick: Tick) -> String {
    let at = Timestamp::from_second(tick.second).map_or_else(|_| "?".to_owned(), |at| at.to_string());
    format!("tick {at} of schedule {}", tick.schedule)
}

pub(super) fn micros(second: i64) -> i64 {
    second.saturating_mul(1_000_000)
}
