//! Keys and limits of the order's queue, as stores are asked for them.

use super::scenario::KeyRule;
use std::sync::Arc;
use windlass_core::{
    Args, KeyLimit, KeyLimitsChange, NewJob, QueueLimits, QueueNeed, Result, ShareRequest, Starts, WorkerId,
};

/// The kind of jobs about a key.
pub(super) const KEYED_KIND: &str = "a";

/// The jobs about keys.
pub(super) fn keyed_jobs(queue: &str, keys: &[u8]) -> Result<Vec<NewJob>> {
    let job = |key: &u8| {
        let args = Args::parse("{}")?;
        Ok(NewJob::new(KEYED_KIND, args).with_queue(queue.to_owned()).with_key(format!("key-{key}")))
    };
    keys.iter().map(job).collect()
}

/// What holds for the queue's keys.
pub(super) fn of_keys(rule: KeyRule) -> KeyLimitsChange {
    match rule {
        KeyRule::Free => KeyLimitsChange::Off,
        KeyRule::AtOnce(most) => KeyLimitsChange::Default(KeyLimit::default().with_concurrency(most)),
        KeyRule::Serial => KeyLimitsChange::Default(KeyLimit::serial()),
    }
}

/// What holds for the queue.
pub(super) fn of_queue(most: Option<u32>) -> QueueLimits {
    most.map_or_else(QueueLimits::default, |most| QueueLimits::default().with_concurrency(most))
}

/// What a worker asks for.
pub(super) fn share(queue: &Arc<str>, worker: WorkerId, running: u32, slots: u32) -> ShareRequest {
    let need = QueueNeed { queue: Arc::clone(queue), running, slots, starts: Starts::default() };
    ShareRequest { worker, generation: 0, queues: vec![need] }
}
