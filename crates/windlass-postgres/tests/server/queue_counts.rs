//! What is said of queues where it is an estimate.

use crate::session::{Session, every_second};
use std::sync::Arc;
use windlass_conformance::steps::{Held, LATER, QUEUE, enqueue_jobs, held, queue, worker_on};
use windlass_core::{Disposition, JobState, Store};

/// Of ranges that are settled together the first has the count of all: the thousand that an estimate reads may have none.
#[tokio::test]
async fn ranges_without_a_count_are_estimated() {
    let session = Session::fresh().await;
    // With so many lanes counts are exact up to 1,000 rows.
    session.run("INSERT INTO windlass.lane (queue, priority) SELECT 'x' || n, 0 FROM generate_series(1, 1000) AS n").await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    enqueue_jobs(&store, 2_400).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(2_400).await;
    worker.settle(claims.iter().map(every_second).collect(), vec![]).await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!(stats.running, 1_200);
    assert_eq!(stats.estimates, [JobState::Completed]);
    assert!((1_200..=2_400).contains(&stats.completed), "{stats:?}");
}

/// The last settlements may all be of one sort: here jobs that were snoozed, after twice as many had completed.
#[tokio::test]
async fn what_ended_lately_says_little_of_what_ended_before() {
    let session = Session::fresh().await;
    session.run("INSERT INTO windlass.lane (queue, priority) SELECT 'x' || n, 0 FROM generate_series(1, 1000) AS n").await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    enqueue_jobs(&store, 4_800).await;
    let worker = worker_on(&store).await;
    for _ in 0..2 {
        worker.complete_claims(&worker.claim(1_200).await).await;
    }
    let snoozed = held(&worker.claim(2_400).await);
    let snooze = |held: &Held| held.exception(Disposition::Snooze { delay: LATER });
    worker.settle(vec![], snoozed.iter().step_by(2).map(snooze).collect()).await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!(stats.estimates, [JobState::Completed, JobState::Scheduled]);
    assert!((1_200..=4_800).contains(&stats.completed), "{stats:?}");
}
