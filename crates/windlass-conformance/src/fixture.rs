use std::sync::Arc;
use windlass_core::Store;

/// One fresh, migrated storage of a store under test; made anew for each rule, removed when dropped.
#[async_trait::async_trait]
pub trait Fixture: Send + Sync {
    /// Another handle on the same storage, with connections of its own: like a second process.
    async fn open(&self) -> Arc<dyn Store>;

    /// How many jobs the rules of [`bulk`](crate::bulk) use.
    fn bulk_jobs(&self) -> usize {
        crate::bulk::JOBS
    }
}
