//! What a worker claimed beyond what foreign code runs at once does not wait with it while other workers have room.

use crate::{
    fake::{FakeStore, Handlers, config},
    lent::{Foreign, start, until},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use windlass_core::{JobId, JobState};
use windlass_runtime::{EngineHandle, WorkerEngine, lend::Lender};

const SECOND: Duration = Duration::from_secs(1);

/// A worker with ten places, and somebody who runs two jobs at once and has them.
async fn full(
    store: &FakeStore,
    lender: &Lender,
) -> (EngineHandle, Foreign, Vec<windlass_runtime::lend::LentJob>) {
    let (engine, foreign) = (start(store, config(10), lender).await, Foreign::new(lender));
    lender.serve(&engine);
    let taken = foreign.take(2).await;
    (engine, foreign, taken)
}

async fn another(store: &FakeStore) -> EngineHandle {
    let handlers = Handlers::default().on("lent", |_| async {}).on("batched", |_| async {});
    WorkerEngine::start(Arc::new(store.seen_by(1)), config(10), Arc::new(handlers)).await.unwrap()
}

async fn all_complete(store: &FakeStore, jobs: &[JobId]) {
    for job in jobs {
        until(store, *job, JobState::Completed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_that_nobody_is_free_for_go_to_a_worker_that_has_room() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 6);
    let (engine, foreign, taken) = full(&store, &lender).await;
    let other = another(&store).await;
    let began = Instant::now();
    all_complete(&store, &jobs[2..]).await;
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    assert!(jobs.iter().all(|job| store.model().job(*job).attempt == 1), "handing back costs no attempt");
    let stats = engine.stats();
    assert_eq!((stats.running, stats.returned), (2, 4), "{stats:?}");
    foreign.complete(&taken);
    all_complete(&store, &jobs).await;
    engine.shutdown().await;
    other.shutdown().await;
}

/// One with a time limit has a future that waits for it, and a batch has one for all its jobs.
#[tokio::test(start_paused = true)]
async fn jobs_with_a_time_limit_and_batches_go_too() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let handlers =
        Handlers::default().lend_awaited("lent", &lender).lend_batch("batched", (3, SECOND / 10), &lender);
    let engine = WorkerEngine::start(store.shared(), config(9), Arc::new(handlers)).await.unwrap();
    lender.serve(&engine);
    let _busy = Foreign::new(&lender);
    let jobs = [store.add("q", "lent", 3), store.add("q", "batched", 4)].concat();
    while lender.offered() < 7 {
        sleep(SECOND / 100).await;
    }
    let other = another(&store).await;
    all_complete(&store, &jobs).await;
    engine.shutdown().await;
    other.shutdown().await;
}

/// Where no other worker is there they come back, and wait longer each time for somebody who is free.
#[tokio::test(start_paused = true)]
async fn a_worker_alone_hands_the_same_job_back_less_and_less() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 3);
    let (engine, foreign, taken) = full(&store, &lender).await;
    sleep(60 * SECOND).await;
    let returned = store.model().returns(jobs[2]);
    assert!((3..9).contains(&returned), "{returned}");
    let began = Instant::now();
    foreign.complete(&taken);
    let last = foreign.take(1).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    foreign.complete(&last);
    all_complete(&store, &jobs).await;
    engine.shutdown().await;
}

/// No worker has room while the store has jobs that nobody takes.
#[tokio::test(start_paused = true)]
async fn they_stay_beside_a_backlog() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 30);
    let (engine, foreign, mut taken) = full(&store, &lender).await;
    sleep(60 * SECOND).await;
    assert_eq!((engine.stats().returned, lender.offered()), (0, 8));
    for _ in 0..jobs.len() / 2 - 1 {
        foreign.complete(&taken);
        taken = foreign.take(2).await;
    }
    foreign.complete(&taken);
    all_complete(&store, &jobs).await;
    engine.shutdown().await;
}
