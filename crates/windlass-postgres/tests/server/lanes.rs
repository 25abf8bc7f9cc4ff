//! Lanes and queues that nobody uses any more are removed, and no job is lost with them.

use crate::cluster::Fixture;
use std::time::Duration;
use tokio_postgres::Client;
use windlass_conformance::steps::{KEEP_NOTHING, eventually, job, jobs, worker};
use windlass_core::{Args, JobId, JobStore, KeyLimit, KeyLimitsChange, NewJob};
use windlass_postgres::PostgresStore;

/// What somebody limited stays limited, whether it has jobs or not.
#[tokio::test]
async fn a_queue_that_nobody_uses_keeps_its_limits() {
    let place = Place::fresh().await;
    let limits = "SELECT windlass.limit_queue('calls', concurrency => 1), windlass.limit_keys('sync', concurrency => 1),
                  windlass.limit_queue('paced', rate => 1, period => '1 minute'), windlass.pause('nothing')";
    place.client.batch_execute(&place.fixture.text(limits)).await.unwrap();
    place
        .client
        .batch_execute(&place.fixture.text("INSERT INTO windlass.queue (name) VALUES ('plain')"))
        .await
        .unwrap();
    place.later(48).await;
    let names = place.fixture.text("SELECT string_agg(name, ' ' ORDER BY name) FROM windlass.queue");
    let left: String = place.client.query_one(&names, &[]).await.unwrap().get(0);
    assert_eq!(left, "calls paced sync");
}

struct Place {
    fixture: Fixture,
    store: PostgresStore,
    client: Client,
}

impl Place {
    async fn fresh() -> Self {
        let fixture = Fixture::shared().await;
        let (store, client) = (fixture.store().await, fixture.sql().await);
        store.configure(&KEEP_NOTHING).await.expect("configure");
        Self { fixture, store, client }
    }

    async fn number(&self, text: &str) -> i64 {
        self.client.query_one(&self.fixture.text(text), &[]).await.expect(text).get(0)
    }

    async fn enqueue(&self, queue: &'static str) {
        let job = NewJob::new("k", Args::parse("{}").unwrap()).with_queue(queue);
        self.store.enqueue(&[job]).await.unwrap();
    }

    /// Lets so many hours pass for lanes, and looks at them.
    async fn later(&self, hours: u32) -> i64 {
        let text = format!(
            "UPDATE windlass.lane SET idle_since = idle_since - interval '{hours} hours';
             UPDATE windlass.queue SET created_at = created_at - interval '{hours} hours';
             UPDATE windlass.housekeeping SET lanes_checked_at = '-infinity'"
        );
        self.client.batch_execute(&self.fixture.text(&text)).await.unwrap();
        self.number("SELECT windlass.forget_lanes(1000)").await
    }

    /// The same until lanes were removed: transactions of the tests beside this one, in other databases of the cluster,
    /// put that off.
    async fn removed(&self, hours: u32) -> i64 {
        let first = self.later(hours).await;
        if first > 0 {
            return first;
        }
        let look = async || Some(self.later(0).await).filter(|removed| *removed > 0);
        eventually("lanes are removed", look).await
    }

    async fn lanes(&self) -> i64 {
        self.number("SELECT count(*) FROM windlass.lane").await
    }

    /// Works everything off and lets the log forget it.
    async fn drain(&self, queue: &str) {
        let seam = std::sync::Arc::new(self.store.clone()) as std::sync::Arc<dyn windlass_core::Store>;
        let worker = worker(&seam, &[queue], &[], Duration::from_secs(60)).await;
        worker.drain(100).await;
        self.store.deregister(worker.id).await.unwrap();
        for _ in 0..4 {
            self.store.maintain().await.unwrap();
        }
        assert_eq!(self.number("SELECT count(*) FROM windlass.job").await, 0);
    }
}

#[tokio::test]
async fn idle_lanes_and_their_queues_vanish() {
    let place = Place::fresh().await;
    for queue in ["a", "b", "c", "stays"] {
        place.enqueue(queue).await;
    }
    for queue in ["a", "b", "c"] {
        let seam = std::sync::Arc::new(place.store.clone()) as std::sync::Arc<dyn windlass_core::Store>;
        let worker = worker(&seam, &[queue], &[], Duration::from_secs(60)).await;
        worker.drain(10).await;
        place.store.deregister(worker.id).await.unwrap();
    }
    place.store.pause("c", true).await.unwrap();
    for _ in 0..4 {
        place.store.maintain().await.unwrap();
    }
    assert_eq!(place.later(0).await, 0);
    assert_eq!(place.later(26).await, 0, "retired first");
    assert_eq!(place.lanes().await, 4);
    assert_eq!(place.removed(26).await, 3);
    assert_eq!(place.lanes().await, 1);
    assert_eq!(place.number("SELECT count(*) FROM windlass.queue WHERE name IN ('a', 'b')").await, 0);
    assert_eq!(place.number("SELECT count(*) FROM windlass.queue WHERE name = 'c'").await, 1, "paused");
}

/// The server's table of locks has a place for some 7,000 of all sessions together.
#[tokio::test]
async fn removing_many_lanes_takes_few_locks() {
    let mut place = Place::fresh().await;
    let many = "INSERT INTO windlass.lane (queue, priority, idle_since, retired_xid) SELECT 'q' || n, 0, now(), '3' FROM generate_series(1, 1200) AS n;
                INSERT INTO windlass.queue (name) SELECT 'q' || n FROM generate_series(1, 1200) AS n";
    place.client.batch_execute(&place.fixture.text(many)).await.unwrap();
    place.later(72).await;
    assert_eq!(place.lanes().await, 700, "no more than 500 in one transaction");
    let text = place.fixture.text("SELECT windlass.forget_lanes(5000)");
    let transaction = place.client.transaction().await.unwrap();
    assert_eq!(transaction.query_one(&text, &[]).await.unwrap().get::<_, i64>(0), 500);
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    assert_eq!(transaction.query_one(locks, &[]).await.unwrap().get::<_, i64>(0), 500);
    transaction.commit().await.unwrap();
    assert_eq!(
        place.number("SELECT windlass.forget_lanes(5000)").await,
        200,
        "the next look does not wait for six hours"
    );
    assert_eq!(place.number("SELECT count(*) FROM windlass.queue").await, 0);
}

#[tokio::test]
async fn a_job_that_comes_late_brings_its_lane_back() {
    let place = Place::fresh().await;
    place.enqueue("q").await;
    place.drain("q").await;
    let lane = place.number("SELECT id::bigint FROM windlass.lane").await;
    place.later(0).await;
    place.later(26).await;
    assert_ne!(
        place.number("SELECT windlass.lane_of('q', 0)::bigint").await,
        lane,
        "a retired lane is handed out"
    );
    // A writer that remembers it.
    let insert = format!("INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES ({lane}, 'k', '{{}}')");
    place.client.execute(&place.fixture.text(&insert), &[]).await.unwrap();
    place.later(26).await;
    assert_eq!(
        place
            .number(&format!("SELECT count(*) FROM windlass.lane WHERE id = {lane} AND idle_since IS NULL"))
            .await,
        1
    );
    place.drain("q").await;
}

#[tokio::test]
async fn an_open_transaction_keeps_the_lane_that_it_wrote_to() {
    let place = Place::fresh().await;
    place.enqueue("q").await;
    place.drain("q").await;
    let open = place.fixture.sql().await;
    open.batch_execute(&place.fixture.text("BEGIN; SELECT windlass.enqueue('k', '{}', 'q')")).await.unwrap();
    for hours in [0, 26, 26, 26] {
        assert_eq!(place.later(hours).await, 0);
    }
    open.batch_execute("COMMIT").await.unwrap();
    assert_eq!(place.later(26).await, 0);
    place.drain("q").await; // which finds it
    for hours in [0, 26] {
        assert_eq!(place.later(hours).await, 0);
    }
    assert_eq!(place.removed(26).await, 1);
}

/// What must not happen: a job whose lane is not there. It is kept, and can be found.
#[tokio::test]
async fn a_job_without_a_lane_is_not_truncated() {
    let place = Place::fresh().await;
    let insert = "INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES (4711, 'k', '{}')";
    place.client.execute(&place.fixture.text(insert), &[]).await.unwrap();
    place.enqueue("q").await;
    let seam = std::sync::Arc::new(place.store.clone()) as std::sync::Arc<dyn windlass_core::Store>;
    let worker = worker(&seam, &["q", "lost.lane.4711"], &[], Duration::from_secs(60)).await;
    assert_eq!(worker.drain(10).await.len(), 1);
    for _ in 0..4 {
        place.store.maintain().await.unwrap();
    }
    assert_eq!(worker.drain(10).await.len(), 1);
}

/// What became of the last jobs of a key is seen by the next claim of its queue, however late that comes.
#[tokio::test]
async fn a_keyed_lane_stays_until_a_claim_has_seen_what_ended() {
    let place = Place::fresh().await;
    place.store.limit_keys("q", &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
    let enqueue = "SELECT windlass.enqueue('k', queue => 'q', key => 'a')";
    let seam = std::sync::Arc::new(place.store.clone()) as std::sync::Arc<dyn windlass_core::Store>;
    let worker = worker(&seam, &["q"], &[], Duration::from_secs(60)).await;
    place.number(enqueue).await;
    // The worker ends with its last job.
    let held = worker.take_one().await;
    worker.complete(&held).await;
    place.store.deregister(worker.id).await.unwrap();
    for _ in 0..4 {
        place.store.maintain().await.unwrap();
    }
    assert_eq!(place.number("SELECT count(*) FROM windlass.job").await, 0);
    for hours in [0, 26] {
        assert_eq!(place.later(hours).await, 0);
    }
    place.removed(26).await; // the lane that jobs are written to
    let next = JobId(place.number(enqueue).await);
    let worker = windlass_conformance::steps::worker(&seam, &["q"], &[], Duration::from_secs(60)).await;
    assert_eq!(worker.drain(1).await, [next]);
    // Then it goes like any other.
    place.store.deregister(worker.id).await.unwrap();
    for _ in 0..4 {
        place.store.maintain().await.unwrap();
    }
    for hours in [0, 26] {
        place.later(hours).await;
    }
    place.removed(26).await;
}

/// Each was a round trip and a commit, while all that went with it waited.
#[tokio::test]
async fn the_lanes_of_a_call_are_made_together() {
    let fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    let jobs: Vec<_> = (0..500_i16)
        .map(|n| job().with_queue(format!("q{}", n / 2)).with_priority(n % 3))
        .chain(jobs(2))
        .collect();
    let ids = store.enqueue(&jobs).await.unwrap();
    let sql = "SELECT count(DISTINCT l.xmin::text), count(*) FROM windlass.lane l WHERE l.queue ~ '^q[0-9]'";
    let row = fixture.sql().await.query_one(&fixture.text(sql), &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 500));
    for (id, job) in ids.iter().zip(&jobs).step_by(83) {
        let record = store.job(*id).await.unwrap().unwrap();
        assert_eq!((&*record.queue, record.priority), (job.queue(), job.priority()));
    }
}
