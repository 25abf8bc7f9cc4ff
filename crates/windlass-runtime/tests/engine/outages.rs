//! A store that goes away and comes back: nothing is lost, and memory stays bounded.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass_core::ErrorKind;
use windlass_runtime::{WorkerConfig, WorkerEngine};

#[tokio::test(start_paused = true)]
async fn outages_under_load_lose_nothing_and_run_nothing_twice() {
    const JOBS: usize = 50_000;
    let (store, runs) = (FakeStore::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&runs);
    let handlers = Handlers::default().on("job", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10))
    });
    store.add("q", "job", JOBS);
    let engine = WorkerEngine::start(store.shared(), config(50), Arc::new(handlers)).await.unwrap();
    let mut outages = 0;
    while !store.model().all_completed() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.go_down();
        tokio::time::sleep(Duration::from_millis(700)).await;
        store.come_back();
        outages += 1;
        assert!(outages < 1_000, "no progress");
    }
    engine.shutdown().await;
    assert!(outages > 5, "only {outages} outages");
    assert_eq!(runs.load(Ordering::SeqCst), JOBS);
    assert_eq!(store.model().registered.len(), 1, "a short outage does not cost the registration");
}

#[tokio::test(start_paused = true)]
async fn claiming_stops_when_too_many_results_wait_and_goes_on_afterwards() {
    const JOBS: usize = 30_000;
    const MAX_BUFFERED: usize = 1_000;
    let store = FakeStore::new();
    store.add("q", "job", JOBS);
    store.plan(|call| match call {
        Call::Settle => Fault::Fail(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let config = WorkerConfig { max_buffered: MAX_BUFFERED, ..config(10) };
    let engine =
        WorkerEngine::start(store.shared(), config, Arc::new(Handlers::default().on("job", |_| async {})));
    let engine = engine.await.unwrap();
    let claimed = |engine: &windlass_runtime::EngineHandle| engine.stats().claimed;
    while claimed(&engine) < MAX_BUFFERED as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stopped_at = claimed(&engine);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(claimed(&engine), stopped_at, "claiming must stop");
    assert!(stopped_at < JOBS as u64, "{stopped_at} were claimed");
    store.come_back();
    while !store.model().all_completed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.shutdown().await;
}

/// As where a file is damaged in a place that claims read. Each may have happened, so that the worker registers anew.
#[tokio::test(start_paused = true)]
async fn claims_that_fail_time_and_again_are_made_less_often() {
    let store = FakeStore::new();
    store.add("q", "job", 1);
    store.plan(|call| match call {
        Call::Claim => Fault::Fail(ErrorKind::Internal),
        _ => Fault::None,
    });
    let handlers = Arc::new(Handlers::default().on("job", |_| async {}));
    let engine = WorkerEngine::start(store.shared(), config(10), handlers).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let registered = store.model().registered.len();
    assert!((60..600).contains(&registered), "registered {registered} times in ten minutes");
    store.come_back();
    while !store.model().all_completed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.shutdown().await;
}
