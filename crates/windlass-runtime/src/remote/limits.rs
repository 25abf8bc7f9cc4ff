//! What a worker that runs elsewhere may start of queues with limits: the engine's rules, and what it was given is what runs.
//!
//! Permissions to start are asked for only while somebody waits for jobs: else nobody would use them in time.

use crate::allowance::Allowance;
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::Instant;
use windlass_core::WorkerId;

/// How many jobs of each queue.
pub(super) type Want = BTreeMap<Arc<str>, usize>;

/// The limited queues of one registration.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) queues: BTreeMap<Arc<str>, Limited>,
    /// What calls under way want.
    pub(super) wanted: Want,
    /// The store is being asked.
    pub(super) asking: bool,
    /// When it last was.
    pub(super) asked_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Limited {
    pub(super) allowance: Allowance,
    /// When the last call ended that wanted jobs of it.
    pub(super) left_at: Instant,
}

impl Limits {
    pub(super) fn is_any(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Whether the next job may be given out, if it costs so much.
    pub(super) fn may_start(&self, queue: &str, cost: u32) -> bool {
        self.queues.get(queue).is_none_or(|limited| limited.allowance.may_start(cost))
    }

    /// A job is given out.
    pub(super) fn started(&mut self, queue: &str, cost: u32) {
        if let Some(limited) = self.queues.get_mut(queue) {
            limited.allowance.started(cost);
        }
    }

    /// One is over. Whether the store may have to know.
    pub(super) fn ended(&mut self, queue: &str, worker: WorkerId) -> bool {
        self.queues.get_mut(queue).is_some_and(|limited| limited.allowance.ended(worker))
    }
}
