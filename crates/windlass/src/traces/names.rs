//! What the conventions call what.

pub(super) const SYSTEM: &str = "messaging.system";
pub(super) const OPERATION: &str = "messaging.operation.name";
pub(super) const OPERATION_TYPE: &str = "messaging.operation.type";
pub(super) const DESTINATION: &str = "messaging.destination.name";
pub(super) const BATCH: &str = "messaging.batch.message_count";
pub(super) const MESSAGE: &str = "messaging.message.id";
pub(super) const ERROR: &str = "error.type";

// They have no words for these.
pub(super) const KIND: &str = "windlass.job.kind";
pub(super) const ATTEMPT: &str = "windlass.job.attempt";
pub(super) const OUTCOME: &str = "windlass.job.outcome";
