//! Who asks about one job waits for one lane's lock and holds none meanwhile, wherever the job moves: so no two of them wait for
//! one another.

use crate::cluster::Fixture;
use std::sync::Arc;
use tokio_postgres::Client;
use windlass_conformance::steps::{LEASE, eventually, worker};
use windlass_core::{CancelReply, JobId, JobStore, Store};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// A job in the log of lane `from`, a lane `to` of another queue, and somebody who holds the lock of `to`.
struct Lanes {
    fixture: Fixture,
    watcher: Client,
    holder: Client,
    job: i64,
    from: i32,
    to: i32,
}

impl Lanes {
    async fn new() -> Self {
        let fixture = Fixture::shared().await;
        let (watcher, holder) = (fixture.sql().await, fixture.sql().await);
        let mut lanes = Self { fixture, watcher, holder, job: 0, from: 0, to: 0 };
        lanes.job = lanes.number("SELECT windlass.enqueue('k')").await;
        lanes.number("SELECT windlass.enqueue('k', queue => 'q')").await;
        lanes.from = lanes.lane("default").await;
        lanes.to = lanes.lane("q").await;
        let lock = lanes.lock("pg_advisory_xact_lock", lanes.to);
        lanes.holder.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
        lanes
    }

    fn lock(&self, function: &str, lane: i32) -> String {
        format!("SELECT {function}(hashtext('{}.lane'), {lane})", self.fixture.schema)
    }

    async fn number(&self, sql: &str) -> i64 {
        self.watcher.query_one(&self.fixture.text(sql), &[]).await.unwrap().get(0)
    }

    async fn lane(&self, queue: &str) -> i32 {
        let sql = format!("SELECT id::bigint FROM windlass.lane WHERE queue = '{queue}'");
        self.number(&sql).await.try_into().unwrap()
    }

    /// Calls a function in a connection of its own; its word, once it is through.
    async fn call(&self, text: &str) -> tokio::task::JoinHandle<String> {
        let (client, text) = (self.fixture.sql().await, self.fixture.text(text));
        tokio::spawn(async move { client.query_one(&text, &[]).await.expect("no deadlock").get(0) })
    }

    /// An open transaction that has moved the job to the other queue.
    async fn edit(&self) -> Client {
        let editor = self.fixture.sql().await;
        let edit = format!("BEGIN; SELECT windlass.edit({}, queue => 'q')", self.job);
        editor.batch_execute(&self.fixture.text(&edit)).await.unwrap();
        editor
    }

    async fn somebody_waits(&self, kind: &str, lane: Option<i32>) {
        let lane = lane.map_or(String::new(), |lane| {
            format!("AND l.objid = {lane} AND l.classid::bigint & 4294967295 = hashtext('{}.lane')::bigint & 4294967295", self.fixture.schema)
        });
        let waits = format!(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = '{kind}' {lane}
             AND a.query LIKE '%{}%'",
            self.fixture.schema
        );
        eventually("somebody waits", || async { (self.number(&waits).await > 0).then_some(()) }).await;
    }

    /// That nobody holds the lane which the job has left.
    async fn expect_free(&self) {
        let free = self.lock("pg_try_advisory_lock", self.from);
        assert!(self.watcher.query_one(&free, &[]).await.unwrap().get::<_, bool>(0));
        self.watcher.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    }
}

#[tokio::test]
async fn cancel_holds_none_while_it_follows_a_job() {
    let lanes = Lanes::new().await;
    let editor = lanes.edit().await;
    let cancel = lanes.call(&format!("SELECT windlass.cancel({})", lanes.job)).await;
    lanes.somebody_waits("advisory", Some(lanes.from)).await;
    editor.batch_execute("COMMIT").await.unwrap();
    lanes.somebody_waits("advisory", Some(lanes.to)).await;
    lanes.expect_free().await;
    lanes.holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(cancel.await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_cancel_of_a_running_job_waits_for_nobody_who_has_its_lane() {
    let lanes = Lanes::new().await;
    let store: Arc<dyn Store> = Arc::new(lanes.fixture.store().await);
    assert_eq!(worker(&store, &["default"], &[], LEASE).await.claim(1).await.len(), 1);
    lanes.holder.batch_execute(&lanes.lock("pg_advisory_xact_lock", lanes.from)).await.unwrap();
    assert_eq!(store.cancel(&[JobId(lanes.job)]).await.unwrap(), [CancelReply::Running]);
    lanes.holder.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn retry_holds_none_while_it_follows_a_job() {
    let lanes = Lanes::new().await;
    lanes.call(&format!("SELECT windlass.cancel({})", lanes.job)).await.await.unwrap();
    let editor = lanes.edit().await;
    let retry = lanes.call(&format!("SELECT windlass.retry({})", lanes.job)).await;
    lanes.somebody_waits("transactionid", None).await;
    lanes.expect_free().await;
    editor.batch_execute("COMMIT").await.unwrap();
    // No row of it is to be stepped over where it is now: somebody has that lane, and it is retried all the same.
    assert_eq!(retry.await.unwrap(), "retried");
    assert_eq!(
        lanes.number("SELECT count(*) FROM windlass.jobs WHERE queue = 'q' AND state = 'available'").await,
        2
    );
}

/// A request for a job that came back and was edited meanwhile is carried out in the lane where the job is.
#[tokio::test]
async fn a_request_holds_none_while_it_follows_a_job() {
    let lanes = Lanes::new().await;
    lanes.edit().await.batch_execute("COMMIT").await.unwrap();
    let request = format!(
        "WITH asked AS (INSERT INTO windlass.cancel_request VALUES ({}, {}, 1, 7) RETURNING job_id)
        SELECT job_id FROM asked",
        lanes.job, lanes.from
    );
    lanes.number(&request).await;
    let ask = "SELECT (SELECT count(*) FROM windlass.cancel_requests(7))::text";
    assert_eq!(lanes.call(ask).await.await.unwrap(), "0");
    let second = lanes.call(ask).await;
    lanes.somebody_waits("advisory", Some(lanes.to)).await;
    lanes.expect_free().await;
    lanes.holder.batch_execute("COMMIT").await.unwrap();
    second.await.unwrap();
    let seen = format!("SELECT count(*) FROM windlass.jobs WHERE id = {} AND state = 'cancelled'", lanes.job);
    assert_eq!(lanes.number(&seen).await, 1);
    assert_eq!(lanes.number("SELECT count(*) FROM windlass.cancel_request").await, 0);
}

/// Many jobs in one transaction may wait for lanes in another order than somebody else does. Then they are cancelled one by one.
#[tokio::test]
async fn a_deadlock_of_many_is_nobodys_error() {
    let lanes = Lanes::new().await;
    let other = lanes.number("SELECT id FROM windlass.jobs WHERE queue = 'q'").await;
    // Of two that wait for one another the one with the shorter patience is refused. It looks once, when that is over: the holder
    // must wait by then.
    let url = format!("{}&options=-c%20deadlock_timeout%3D3s", lanes.fixture.url);
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await.expect("connects");
    let ids = [JobId(lanes.job), JobId(other)];
    let cancel = tokio::spawn(async move { store.cancel(&ids).await });
    lanes.somebody_waits("advisory", Some(lanes.to)).await;
    lanes.holder.batch_execute("SET deadlock_timeout = '1h'").await.unwrap();
    lanes.holder.batch_execute(&lanes.lock("pg_advisory_xact_lock", lanes.from)).await.unwrap();
    lanes.holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(cancel.await.unwrap().unwrap(), [CancelReply::Cancelled, CancelReply::Cancelled]);
}

/// Nor does who asks about many keep those that it has while it waits for another.
#[tokio::test]
async fn many_jobs_keep_no_lane_while_one_waits_for_another() {
    let lanes = Lanes::new().await;
    let store = lanes.fixture.store().await;
    let waits = lanes.number("SELECT max(id) FROM windlass.jobs WHERE queue = 'q'").await;
    let ids = [JobId(lanes.job), JobId(waits)];
    let call = tokio::spawn(async move { store.cancel(&ids).await });
    lanes.somebody_waits("advisory", Some(lanes.to)).await;
    let lock = lanes.lock("pg_advisory_xact_lock", lanes.from);
    lanes.watcher.batch_execute(&lock).await.expect("it is given back");
    lanes.holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(call.await.unwrap().expect("goes on"), [CancelReply::Cancelled; 2]);
}
