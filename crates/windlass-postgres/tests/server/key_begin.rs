//! A queue gets limits of its keys in a transaction that stays open, and lanes come meanwhile, which that transaction does not see.

use crate::{
    cluster::Fixture,
    keys::{claim, claim_within, complete, of, work_all},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use windlass_conformance::steps::{QUEUE, TestWorker, eventually, worker_on};
use windlass_core::{JobId, KeyLimit, KeyLimitsChange, NewJob, QueueDemand, Store};

/// Two jobs of one key, of this priority.
async fn enqueued(store: &Arc<dyn Store>, priority: i16) -> BTreeSet<JobId> {
    let jobs: Vec<NewJob> = of("a", 2).into_iter().map(|job| job.with_priority(priority)).collect();
    store.enqueue(&jobs).await.unwrap().into_iter().collect()
}

/// They come, and each only when the one before is over.
async fn come_one_by_one(worker: &TestWorker, mut left: BTreeSet<JobId>) {
    while !left.is_empty() {
        let held = claim(worker, 10).await;
        assert_eq!(held.len(), 1, "{left:?} are left");
        assert!(claim(worker, 10).await.is_empty(), "two of a serial key are held");
        assert!(left.remove(&held[0].job.id));
        complete(worker, &held).await;
    }
    assert!(work_all(worker, 10).await.is_empty());
}

/// Of a queue that is new, and of another priority of one that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_out_of_a_lane_that_comes_while_limits_begin() {
    for is_new in [true, false] {
        let fixture = Fixture::fresh().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        if !is_new {
            let before = store.enqueue(&of("a", 1)).await.unwrap();
            assert_eq!(work_all(&worker, 10).await, before);
        }
        let limiter = fixture.sql().await;
        for end in ["ROLLBACK", "COMMIT"] {
            let limit = "BEGIN; SELECT windlass.limit_keys('q', serial => true)";
            limiter.batch_execute(&fixture.text(limit)).await.unwrap();
            let ids = enqueued(&store, if end == "COMMIT" { 5 } else { 7 }).await;
            let (held, more) = claim_within(&worker, QueueDemand::new(QUEUE, 1)).await;
            assert!(held.is_empty() && more, "new: {is_new}");
            limiter.batch_execute(end).await.unwrap();
            match end {
                "COMMIT" => come_one_by_one(&worker, ids).await,
                _ => assert_eq!(work_all(&worker, 10).await, Vec::from_iter(ids)),
            }
        }
    }
}

/// The same while the call waits for somebody who has another lane of the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_out_of_a_lane_that_comes_while_limits_wait() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let before = store.enqueue(&of("a", 1)).await.unwrap();
    let canceller = fixture.sql().await;
    let cancel = format!("BEGIN; SELECT windlass.cancel({})", before[0]);
    canceller.batch_execute(&fixture.text(&cancel)).await.unwrap();
    let limiter = fixture.sql().await;
    let limit = fixture.text("SELECT windlass.limit_keys('q', serial => true)");
    let limits = tokio::spawn(async move { limiter.batch_execute(&limit).await });
    let waits = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND classid::bigint = hashtext('{}.lane')::bigint & 4294967295",
        fixture.schema
    );
    let watcher = fixture.sql().await;
    eventually("the limits wait for the lane", || async {
        (watcher.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
    })
    .await;
    let ids = enqueued(&store, 5).await;
    let (held, more) = claim_within(&worker, QueueDemand::new(QUEUE, 1)).await;
    assert!(held.is_empty() && more);
    canceller.batch_execute("COMMIT").await.unwrap();
    limits.await.unwrap().unwrap();
    come_one_by_one(&worker, ids).await;
}

/// Whoever makes lanes and claims from them while limits begin and end: no two jobs of a serial key are held once a call that limits has returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_claimed_as_limits_began_counts() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    for priority in 0..40_i16 {
        let limits = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await }
        });
        tokio::time::sleep(Duration::from_micros(u64::from(priority.unsigned_abs() % 8) * 300)).await;
        let ids = enqueued(&store, priority).await;
        let (mut held, _) = claim_within(&worker, QueueDemand::new(QUEUE, 1)).await;
        limits.await.unwrap().unwrap();
        held.extend(claim(&worker, 1).await);
        assert_eq!(held.len(), 1, "two of a serial key are held");
        complete(&worker, &held).await;
        let rest: BTreeSet<_> = ids.into_iter().filter(|id| *id != held[0].job.id).collect();
        come_one_by_one(&worker, rest).await;
        store.limit_keys(QUEUE, &KeyLimitsChange::Off).await.unwrap();
    }
}
