//! Ticks: each fires once, and by the record that the leader saw.

use super::Book;
use crate::permuter::schedule::TICK_KIND;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{JobId, ScheduleRecord, ScheduleStep};

/// What is known of the order's schedule.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    fired: BTreeSet<Timestamp>,
    /// When the record was changed last.
    changed: Option<u64>,
    /// When each version of the record was seen last.
    seen: BTreeMap<i64, u64>,
}

impl Ticks {
    pub(super) fn changed(&mut self, tick: u64) {
        self.changed = Some(tick);
    }

    pub(super) fn seen(&mut self, record: &ScheduleRecord, tick: u64) {
        self.seen.insert(record.version, tick);
    }
}

impl Book {
    /// Whether somebody declared the schedule.
    pub(crate) fn may_fire(&self) -> bool {
        self.ticks.changed.is_some()
    }

    /// The transaction of a step that was taken committed.
    pub(super) fn fired(&mut self, step: &ScheduleStep, ids: &[JobId]) {
        if ids.len() != step.jobs.len() {
            self.blame(format!("{} jobs of a tick that has {}", ids.len(), step.jobs.len()));
        }
        if !self.ticks.fired.insert(step.decided) {
            self.blame(format!("tick {} fired twice", step.decided));
        }
        if self.ticks.seen.get(&step.version).copied() < self.ticks.changed {
            self.blame(format!(
                "a step was taken from version {}, which was another one by then",
                step.version
            ));
        }
        self.ticks.changed(self.tick);
        ids.iter().for_each(|&id| self.enqueued(id, TICK_KIND));
    }
}
