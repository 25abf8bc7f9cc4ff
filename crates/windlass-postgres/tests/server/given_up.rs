//! Who gives up a call (a timeout around it, a `select!`, a request whose client is gone) leaves no connection to others that waits for it, and no server process.

use crate::cluster::Fixture;
use std::{future::Future, sync::Arc};
use tokio_postgres::Client;
use windlass_conformance::steps::{eventually, job, jobs};
use windlass_core::{JobFilter, JobStore};
use windlass_postgres::PostgresStore;

/// A store with one connection for calls of clients, beside somebody who has the log locked.
struct Ground {
    store: Arc<PostgresStore>,
    admin: Client,
    locker: Client,
    name: String,
}

impl Ground {
    async fn fresh() -> Self {
        let mut fixture = Fixture::shared().await;
        fixture.options.pool_size = 1;
        fixture.url += &format!("&application_name={}", fixture.schema);
        let (store, locker) = (Arc::new(fixture.store().await), fixture.sql().await);
        locker.batch_execute(&fixture.text("BEGIN; LOCK TABLE windlass.job")).await.unwrap();
        Self { store, admin: fixture.sql().await, locker, name: fixture.schema.clone() }
    }

    /// How many server processes of the store wait for a lock.
    async fn waiting(&self) -> i64 {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
        self.admin.query_one(sql, &[&self.name]).await.unwrap().get(0)
    }

    /// Begins the call, and gives it up when it waits for the lock.
    async fn give_up<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) {
        let call = tokio::spawn(call);
        eventually("it waits", || async { (self.waiting().await == 1).then_some(()) }).await;
        call.abort();
        assert!(call.await.is_err_and(|error| error.is_cancelled()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_call_waits_for_none_that_was_given_up() {
    let ground = Ground::fresh().await;
    for many in [1, 20, 1, 20] {
        let store = Arc::clone(&ground.store);
        ground.give_up(async move { store.enqueue(&jobs(many)).await }).await;
        ground.store.settings().await.unwrap_or_else(|error| panic!("after {many} jobs: {error}"));
        eventually("its server process is stopped", || async { (ground.waiting().await == 0).then_some(()) })
            .await;
    }
    ground.locker.batch_execute("ROLLBACK").await.unwrap();
    let stored = ground.store.jobs(&JobFilter::default()).await.unwrap();
    assert!(stored.is_empty(), "{} jobs of calls that were given up", stored.len());
    ground.store.enqueue(&[job()]).await.unwrap();
}

/// Nobody looks after the rest of a migration whose caller is gone; another one waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_is_given_up_is_stopped() {
    let ground = Ground::fresh().await;
    let store = Arc::clone(&ground.store);
    ground.give_up(async move { store.migrate().await }).await;
    ground.store.settings().await.unwrap();
    eventually("its server process is stopped", || async { (ground.waiting().await == 0).then_some(()) })
        .await;
    ground.locker.batch_execute("ROLLBACK").await.unwrap();
    ground.store.migrate().await.unwrap();
}
