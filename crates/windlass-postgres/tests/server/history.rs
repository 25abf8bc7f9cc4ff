//! Counters on PostgreSQL: what they cost, and what only this store can do to them.

use crate::{cluster::Fixture, session::every_second};
use std::{collections::BTreeMap, sync::Arc};
use tokio_postgres::Client;
use windlass_conformance::steps::{KEEP_NOTHING, KIND, enqueue, enqueue_jobs, is_removed, job, worker_on};
use windlass_core::{ErrorKind, HistoryRequest, Store};

struct Place {
    fixture: Fixture,
    store: Arc<dyn Store>,
    client: Client,
}

impl Place {
    async fn fresh() -> Self {
        let fixture = Fixture::fresh().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let client = fixture.sql().await;
        Self { fixture, store, client }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(&self.fixture.text(sql), &[]).await.expect(sql).get(0)
    }

    async fn pages(&self, call: &str) -> i64 {
        self.fixture.pages(&self.client, &format!("SELECT * FROM {call}")).await
    }

    /// Settles every second job of so many claims of this size in one call.
    async fn settle_every_second(&self, claims: usize, jobs: u32) {
        enqueue_jobs(&self.store, claims * jobs as usize).await;
        let worker = worker_on(&self.store).await;
        let mut held = Vec::new();
        for _ in 0..claims {
            held.extend(worker.claim(jobs).await);
        }
        assert_eq!(held.len(), claims);
        worker.settle(held.iter().map(every_second).collect(), vec![]).await;
    }

    /// Counts all that there is.
    async fn fold(&self) {
        while self.number("SELECT again::integer::bigint FROM windlass.fold(20000)").await > 0 {}
    }

    async fn counted(&self) -> u64 {
        self.kinds().await.values().sum()
    }

    /// How many are counted, by kind.
    async fn kinds(&self) -> BTreeMap<Option<String>, u64> {
        let request = HistoryRequest::last(HistoryRequest::LONGEST);
        let mut kinds = BTreeMap::new();
        for count in self.store.history(&request).await.expect("history").counts {
            *kinds.entry(count.kind).or_default() += count.count;
        }
        kinds
    }
}

/// A million jobs stand in the log: a step costs what it counts, and one without news a few pages; reading costs by the counters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_costs_what_it_counts() {
    let place = Place::fresh().await;
    let fold = "windlass.fold(1000)";
    place.run("SELECT windlass.fold(1000); SET synchronous_commit = off").await; // plans of empty tables
    for _ in 0..10 {
        place
            .run("INSERT INTO windlass.job_0 (lane_id, kind, args) SELECT (SELECT windlass.lane_of('q', 0)), 'k' || n % 3, '{}' FROM generate_series(1, 100000) AS n")
            .await;
    }
    let worker = worker_on(&place.store).await;
    for _ in 0..100 {
        let claims = worker.claim(1_000).await;
        worker.complete_claims(&claims).await;
    }
    let step = place.pages(fold).await;
    assert!(step < 3_000, "{step} pages for about 1,000 of 100,000 jobs that completed");
    while place
        .client
        .query_one(&place.fixture.text("SELECT again FROM windlass.fold(50000)"), &[])
        .await
        .unwrap()
        .get(0)
    {}
    let idle = place.pages(fold).await;
    assert!(idle < 400, "{idle} pages for nothing");
    let read = place.pages("windlass.history()").await;
    assert!(read < 100, "{read} pages to read a few counters");
    let kinds = place.kinds().await;
    assert_eq!(kinds.values().sum::<u64>(), 100_000);
    assert!(kinds.len() == 3 && kinds.values().all(|n| n.abs_diff(33_333) < 500), "{kinds:?}");
}

/// What is to be removed at once is counted without looking at each job, exactly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_is_counted_before_it_is_emptied() {
    let place = Place::fresh().await;
    place.store.configure(&KEEP_NOTHING).await.expect("configure");
    let worker = worker_on(&place.store).await;
    let mut truncated = 0;
    for _ in 0..30 {
        enqueue_jobs(&place.store, 50).await;
        worker.drain(20).await;
        // Nothing but the emptying of segments: as if the leader had no time to count.
        for _ in 0..6 {
            truncated += place.number("SELECT truncated::bigint FROM windlass.maintain()").await;
        }
    }
    assert!(truncated >= 10, "only {truncated} segments were emptied");
    place.store.maintain().await.expect("maintain");
    let kinds = place.kinds().await;
    assert_eq!(kinds.values().sum::<u64>(), 1_500, "{kinds:?}");
    assert!(kinds.contains_key(&None), "{kinds:?}");
}

/// What one call settled of a claim is counted at one speed: its first range has the count of all. Here a backlog of twenty minutes begins with one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haste_does_not_begin_within_a_claim() {
    let place = Place::fresh().await;
    place.settle_every_second(1, 2_400).await;
    place.run("UPDATE windlass.settlement SET settled_at = settled_at - interval '20 minutes'").await;
    place.fold().await;
    assert_eq!(place.counted().await, 1_200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haste_does_not_end_within_a_claim() {
    let place = Place::fresh().await;
    place.settle_every_second(8, 3_000).await;
    assert_eq!(place.number("SELECT count(*) FROM windlass.settlement").await, 12_000);
    place.run("UPDATE windlass.counter_fold SET hasty = true").await; // as a backlog that was nearly caught up with leaves it
    place.fold().await;
    assert_eq!(place.counted().await, 12_000);
}

/// Its segment is to be emptied when a part of it is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptying_makes_no_haste_within_a_claim() {
    let place = Place::fresh().await;
    place.settle_every_second(2, 2_400).await;
    assert_eq!(place.number("SELECT again::integer::bigint FROM windlass.fold(20000)").await, 1);
    let steps = "SELECT count(*) FROM windlass.counter_fold WHERE until IS NOT NULL";
    while place.number(steps).await > 0 {
        place.run("SELECT windlass.count_before_emptying(pg_current_snapshot())").await;
    }
    assert_eq!(place.counted().await, 2_400);
}

/// A job that runs for longer than the others of its claim are retained counts by its kind all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlives_the_others_of_its_claim_has_its_kind() {
    let place = Place::fresh().await;
    let ids = enqueue_jobs(&place.store, 3).await;
    let worker = worker_on(&place.store).await;
    let held = worker.take(3).await;
    for early in &held[..2] {
        worker.complete(early).await;
    }
    assert!(is_removed(&place.store, ids[0]).await, "the others are retained");
    let before = place.kinds().await;
    worker.complete(&held[2]).await;
    place.run("SELECT windlass.fold(1000)").await;
    let mut expected = before.clone();
    *expected.entry(Some(KIND.to_owned())).or_default() += 1;
    assert_eq!(place.kinds().await, expected, "before: {before:?}");
}

/// A transaction that ends late is counted when it is committed, once; one that is rolled back never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_commits_are_counted_once() {
    let place = Place::fresh().await;
    // Each in a queue of its own: who cancels holds its lane.
    let mut ids = Vec::new();
    for queue in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        ids.push(enqueue(&place.store, job().with_queue(queue)).await);
    }
    enqueue_jobs(&place.store, 34).await;
    let mut open = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        let client = place.fixture.sql().await;
        client.batch_execute("BEGIN").await.unwrap();
        let cancel = place.fixture.text(&format!("SELECT windlass.cancel({})", id.0));
        if n % 2 == 0 {
            // Only its id is older than what is counted meanwhile.
            client.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
        } else {
            client.batch_execute(&cancel).await.unwrap();
        }
        open.push((client, cancel));
        place.store.maintain().await.expect("maintain");
    }
    for (n, (client, cancel)) in open.iter().enumerate().rev() {
        if n % 2 == 0 {
            client.batch_execute(cancel).await.unwrap();
        }
        client.batch_execute(if n % 4 == 3 { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
        place.store.maintain().await.expect("maintain");
    }
    assert_eq!(place.kinds().await.values().sum::<u64>(), 6);
    let worker = worker_on(&place.store).await;
    assert_eq!(worker.drain(100).await.len(), 34);
    place.store.maintain().await.expect("maintain");
    assert_eq!(place.kinds().await.values().sum::<u64>(), 40);
}

/// Old counters go, in chunks; by SQL the same is refused as by the client libraries.
#[tokio::test]
async fn old_counters_go() {
    let place = Place::fresh().await;
    place
        .run("INSERT INTO windlass.counter SELECT date_trunc('minute', now()) - n * interval '1 hour', 'q', 'k', 'failed', 1 FROM generate_series(0, 12000) AS n")
        .await;
    let stored = "SELECT count(*) FROM windlass.counter";
    place.store.maintain().await.expect("maintain");
    let left = place.number(stored).await;
    assert!((720..=721).contains(&left), "{left}");
    for (call, says) in [
        ("last => '31 days'", "up to 30 days, got 31 days"),
        ("last => NULL", "got NULL"),
        ("step => '90 seconds'", "whole minutes"),
        ("step => '0'", "whole minutes"),
    ] {
        let sql = place.fixture.text(&format!("SELECT windlass.history({call})"));
        let error = place.client.batch_execute(&sql).await.expect_err(call);
        let error = error.as_db_error().expect("from the server");
        assert!(error.message().contains(says), "{call}: {}", error.message());
        assert_eq!(
            windlass_postgres::sqlstate_error(error.code().code(), error.message()).kind(),
            ErrorKind::InvalidOption
        );
    }
}
