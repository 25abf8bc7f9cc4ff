use windlass_core::{JobId, NewJob};

/// A batch under an idempotency key.
pub(super) struct Once {
    pub(super) key: String,
    pub(super) jobs: Vec<NewJob>,
    pub(super) ids: Vec<JobId>,
    /// When, by the oracle's clock.
    pub(super) at: jiff::Timestamp,
}
