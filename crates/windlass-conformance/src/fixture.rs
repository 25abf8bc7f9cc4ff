use std::sync::Arc;
use windlass_core::Store;

/// How many jobs the rules of [`bulk`](crate::bulk) use, unless the fixture says otherwise. Fewer without
/// optimisation, to keep tests quick.
pub const BULK_JOBS: usize = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };

/// How many histories the [model](crate::model) tells, unless the fixture says otherwise.
const HISTORIES: u64 = 20;

/// One fresh, migrated storage of a store under test; made anew for each rule, removed when dropped.
#[async_trait::async_trait]
pub trait Fixture: Send + Sync {
    /// Another handle on the same storage, with connections of its own: like a second process.
    async fn open(&self) -> Arc<dyn Store>;

    /// How many jobs the rules of [`bulk`](crate::bulk) use.
    fn bulk_jobs(&self) -> usize {
        BULK_JOBS
    }

    /// How many histories the [model](crate::model) tells, unless the environment says otherwise. Fewer where the same store is proven by another fixture.
    fn histories(&self) -> u64 {
        HISTORIES
    }

    /// Whether the store offers all that the contract knows. Of one that leaves something out the rules of that are passed over; of others they would be so unnoticed.
    fn is_whole(&self) -> bool {
        true
    }
}
