//! The storage contract on PostgreSQL.

async fn fixture() -> crate::cluster::Fixture {
    crate::cluster::Fixture::fresh().await
}

windlass_conformance::suite!(fixture);
