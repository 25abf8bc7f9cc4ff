//! The storage contract.

use async_trait::async_trait;
use std::sync::Arc;
use windlass_conformance::Fixture;
use windlass_core::Store;
use windlass_memory::MemoryStore;

/// Every handle is a clone: the same store.
struct Memory(MemoryStore);

#[async_trait]
impl Fixture for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }
}

async fn fixture() -> Memory {
    Memory(MemoryStore::new())
}

windlass_conformance::suite!(fixture);
