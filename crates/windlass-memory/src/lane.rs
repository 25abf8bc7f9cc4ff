use crate::turns::Turns;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use windlass_core::JobId;

/// One queue at one priority.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
    /// Available jobs in the order in which they became so.
    pub(crate) available: BTreeMap<i64, JobId>,
    /// Jobs that wait for a worker that knows their kind.
    pub(crate) no_handler: BTreeSet<JobId>,
    /// When jobs of it were last claimed.
    pub(crate) claimed_at: Timestamp,
    /// Whose turn it is, where the queue knows keys.
    pub(crate) turns: Turns,
}

impl Lane {
    pub(crate) fn new(queue: Arc<str>, priority: i16) -> Self {
        Self {
            queue,
            priority,
            available: BTreeMap::new(),
            no_handler: BTreeSet::new(),
            claimed_at: Timestamp::MIN,
            turns: Turns::default(),
        }
    }
}
