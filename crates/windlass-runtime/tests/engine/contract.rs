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
}

async fn fixture() -> FakeStore {
    let store = FakeStore::new();
    store.lock().leases_run_out = true;
    store
}

windlass_conformance::suite!(fixture);
