//! The store that the other tests use, as long as nothing is asked to fail, keeps the contract like any other.

use crate::fake::FakeStore;
use async_trait::async_trait;
use std::sync::Arc;
use windlass_conformance::Fixture;
use windlass_core::Store;

#[async_trait]
impl Fixture for FakeStore {
    async fn open(&self) -> Arc<dyn Store> {
        self.shared()
    }

    /// The store beneath has a test of its own; what this layer does to it shows after a few.
    fn bulk_jobs(&self) -> usize {
        20_000
    }

    fn histories(&self) -> u64 {
        2
    }

    /// It limits no keys, and tells of no ends.
    fn is_whole(&self) -> bool {
        false
    }
}

async fn fixture() -> FakeStore {
    let store = FakeStore::new();
    store.lock().leases_run_out = true;
    store
}

windlass_conformance::suite!(fixture);
