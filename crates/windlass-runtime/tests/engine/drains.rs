//! A worker that somebody asks to drain takes no more jobs, ends what it runs however long that takes, and goes.

use crate::fake::{FakeStore, Handlers, config};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use windlass_core::{JobState, JobStore, WorkerId};
use windlass_runtime::{EngineHandle, WorkerConfig, WorkerEngine};

const HOUR: Duration = Duration::from_secs(3_600);

async fn start(store: &FakeStore, client: usize, handlers: Handlers) -> (EngineHandle, WorkerId) {
    let config = WorkerConfig { grace_period: Duration::from_secs(1), ..config(2) };
    let engine =
        WorkerEngine::start(Arc::new(store.seen_by(client)), config, Arc::new(handlers)).await.unwrap();
    let worker = *store.model().registered.last().unwrap();
    (engine, worker)
}

#[tokio::test(start_paused = true)]
async fn it_ends_what_it_runs_and_goes() {
    let store = FakeStore::new();
    let jobs = store.add("q", "long", 5);
    let (engine, worker) = start(&store, 0, Handlers::default().on("long", |_| sleep(HOUR))).await;
    store.until("two run", |model| model.held() == 2).await;
    store.drain_worker(worker).await.unwrap();
    // The grace period of a stop is not that of a drain.
    assert!(timeout(HOUR / 2, engine.wait()).await.is_err(), "it runs its jobs");
    assert_eq!(engine.stats().running, 2);
    timeout(HOUR, engine.wait()).await.unwrap();
    let mut model = store.model();
    assert_eq!(model.deregistered, [worker]);
    let states = jobs.iter().map(|job| model.job(*job).state).collect::<Vec<_>>();
    let [done, left] = [JobState::Completed, JobState::Available];
    assert_eq!(states, [done, done, left, left, left]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_one_goes_at_once_and_another_works_on() {
    let store = FakeStore::new();
    let (engine, worker) = start(&store, 0, Handlers::default().on("noop", |_| async {})).await;
    let (other, _) = start(&store, 1, Handlers::default().on("noop", |_| async {})).await;
    store.drain_worker(worker).await.unwrap();
    timeout(WorkerConfig::DEFAULT_LEASE, engine.wait()).await.expect("by its next heartbeat");
    store.add("q", "noop", 10);
    store.until("all done", |model| model.all_completed()).await;
    other.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_beside_a_drain_keeps_to_the_grace_period() {
    let store = FakeStore::new();
    let job = store.add("q", "long", 1)[0];
    let (engine, worker) = start(&store, 0, Handlers::default().on("long", |_| sleep(HOUR))).await;
    store.until("it runs", |model| model.held() == 1).await;
    store.drain_worker(worker).await.unwrap();
    sleep(WorkerConfig::DEFAULT_LEASE).await;
    timeout(HOUR / 2, engine.shutdown()).await.unwrap();
    assert_eq!(store.model().job(job).state, JobState::Available, "handed back");
}
