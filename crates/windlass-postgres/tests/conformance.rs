//! The storage contract on PostgreSQL.
mod cluster;

async fn fixture() -> cluster::Fixture {
    cluster::Fixture::fresh().await
}

windlass_conformance::suite!(fixture);
