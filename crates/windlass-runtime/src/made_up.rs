//! Claims as tests of this crate make them up.

use crate::epoch::{ClaimScope, Epoch};
use jiff::Timestamp;
use std::sync::Arc;
use tokio::time::Instant;
use windlass_core::{ClaimRef, ClaimedJob, JobId};

pub(crate) fn scope(epoch: &Arc<Epoch>, reference: ClaimRef, priority: i16) -> Arc<ClaimScope> {
    Arc::new(ClaimScope::new(Arc::clone(epoch), reference, "q".into(), priority, Instant::now()))
}

pub(crate) fn job(id: i64) -> ClaimedJob {
    ClaimedJob {
        id: JobId(id),
        position: 0,
        kind: "k".into(),
        args: bytes::Bytes::new(),
        attempt: 1,
        max_attempts: 1,
        crash_count: 0,
        enqueued_at: Timestamp::UNIX_EPOCH,
        never_put_off: true,
        attributes: None,
        expires_in: None,
    }
}
