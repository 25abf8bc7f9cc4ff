//! The engine over a real store, from enqueue to the last settlement.

use crate::fake::{Handlers, config};
use std::{sync::Arc, time::Duration};
use windlass_core::{Args, JobState, JobStore, NewJob, Outcome, RetryPolicy, Store};
use windlass_runtime::WorkerEngine;
use windlass_sqlite::{SqliteOptions, SqliteStore};

async fn open(dir: &tempfile::TempDir) -> Arc<dyn Store> {
    let path = dir.path().join("jobs.db");
    let store = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).unwrap();
    store.migrate().await.unwrap();
    Arc::new(store)
}

fn jobs(kind: &'static str, count: usize) -> Vec<NewJob> {
    let job = NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("q").with_max_attempts(2);
    vec![job; count]
}

/// Polls the store's counts until they are as wished.
async fn until(store: &Arc<dyn Store>, reached: impl Fn(&windlass_core::QueueStats) -> bool) {
    let wait = async {
        loop {
            let queues = store.queues().await.unwrap();
            if queues.first().is_some_and(&reached) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_jobs_of_every_fate() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    let at_once = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let handlers = Handlers::default()
        .on("complete", |_| async {})
        .with_policy("fail", Some(at_once), |_| async { Err::<(), _>("no route") })
        .on("wait", |_| tokio::time::sleep(Duration::from_millis(1)))
        .on("cancel", |_| async { Outcome::Cancel("unwanted".into()) });
    for (kind, count) in [("complete", 9_000), ("fail", 300), ("wait", 500), ("cancel", 200)] {
        store.enqueue(&jobs(kind, count)).await.unwrap();
    }
    let engine = WorkerEngine::start(Arc::clone(&store), config(20), Arc::new(handlers)).await.unwrap();
    until(&store, |queue| (queue.completed, queue.discarded, queue.cancelled) == (9_500, 300, 200)).await;
    engine.shutdown().await;
    let stats = engine.stats();
    assert_eq!((stats.completed, stats.retried, stats.discarded, stats.cancelled), (9_500, 300, 300, 200));
    let left = store.queues().await.unwrap().remove(0);
    assert_eq!((left.available, left.running, left.retryable), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_leaves_the_rest_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    let ids = store.enqueue(&jobs("complete", 50_000)).await.unwrap();
    for _ in 0..5 {
        let handlers = Handlers::default().on("complete", |_| async {});
        let engine = WorkerEngine::start(Arc::clone(&store), config(10), Arc::new(handlers)).await.unwrap();
        while engine.stats().completed < 500 && engine.stats().completed + 500 < 50_000 {
            tokio::task::yield_now().await;
        }
        engine.shutdown().await;
        let queue = store.queues().await.unwrap().remove(0);
        assert_eq!((queue.running, queue.completed + queue.available), (0, 50_000), "{queue:?}");
        if queue.available == 0 {
            break;
        }
    }
    let job = store.job(ids[0]).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
}
