//! The storage contract for a role that owns nothing: it was granted what a worker and an operator need.

use crate::cluster::Fixture;
use std::sync::Arc;
use windlass_core::{Store, wrap_store};
use windlass_postgres::{Access, PostgresStore};

/// What the role may not do, the owner does.
struct Granted {
    store: PostgresStore,
    owner: PostgresStore,
}

wrap_store! {
    impl JobStore for Granted, through store:
    [capabilities enqueue enqueue_once enqueue_unique register heartbeat deregister report checkpoints claim settle suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events states ended ends wakeup close]

    async fn migrate(&self) -> windlass_core::Result<windlass_core::MigrationReport> {
        self.owner.migrate().await
    }
}

struct GrantedFixture {
    fixture: Fixture,
    url: String,
}

#[async_trait::async_trait]
impl windlass_conformance::Fixture for GrantedFixture {
    async fn open(&self) -> Arc<dyn Store> {
        let store = PostgresStore::connect(&self.url, self.fixture.options.clone()).await.expect("connects");
        Arc::new(Granted { store, owner: self.fixture.store().await })
    }

    /// Speed is the owner's affair.
    fn bulk_jobs(&self) -> usize {
        20_000
    }

    /// What may be called shows after a few.
    fn histories(&self) -> u64 {
        2
    }
}

async fn fixture() -> GrantedFixture {
    let fixture = Fixture::fresh().await;
    let url = fixture.role("both", &[Access::Worker, Access::Operator]).await;
    GrantedFixture { fixture, url }
}

windlass_conformance::suite!(fixture);
