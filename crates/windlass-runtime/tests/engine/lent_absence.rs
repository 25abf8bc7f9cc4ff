//! Foreign code that is not there any more: what its worker claimed goes to others, and the worker claims again when somebody is there.

use crate::{
    fake::{Call, FakeStore, Fault, Handlers, config},
    lent::{Foreign, start, until},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use windlass_core::{JobId, JobState, JobStore};
use windlass_runtime::{
    EngineHandle, WorkerEngine,
    lend::{Lender, rest_without_borrowers},
};

const LONG: Duration = Duration::from_secs(60);

/// A worker whose jobs foreign code runs, and nobody else.
async fn lending(store: &FakeStore, lender: &Lender, concurrency: usize) -> EngineHandle {
    let engine = start(store, config(concurrency), lender).await;
    lender.serve(&engine);
    rest_without_borrowers(vec![lender.clone()], &engine);
    engine
}

async fn another(store: &FakeStore) -> EngineHandle {
    let handlers = Handlers::default().on("lent", |_| async {});
    WorkerEngine::start(Arc::new(store.seen_by(1)), config(2), Arc::new(handlers)).await.unwrap()
}

async fn all(store: &FakeStore, jobs: &[JobId], state: JobState) {
    for job in jobs {
        until(store, *job, state).await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_workers_run_what_a_worker_claimed_whose_program_is_gone() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let first = Foreign::new(&lender);
    let engine = lending(&store, &lender, 3).await;
    let jobs = store.add("q", "lent", 3);
    let taken = first.take(1).await;
    while lender.offered() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    // What it had fails, and what it had not begun goes back.
    drop(first);
    sleep(LONG).await;
    assert_eq!(store.model().job(taken[0].context.id()).attempt, 1);
    all(&store, &jobs[1..], JobState::Available).await;
    let calls = counted(&store, Call::Claim);
    sleep(LONG).await;
    assert_eq!((calls.load(Ordering::SeqCst), engine.stats().running), (0, 0), "it claims nothing");

    let other = another(&store).await;
    let more = store.add("q", "lent", 20);
    all(&store, &[&jobs[..], &more[..]].concat(), JobState::Completed).await;
    other.shutdown().await;

    let (last, again) = (store.add("q", "lent", 2), Foreign::new(&lender));
    let taken = again.take(2).await;
    again.complete(&taken);
    all(&store, &last, JobState::Completed).await;
    engine.shutdown().await;
    assert_eq!(
        jobs[1..].iter().map(|job| store.model().job(*job).attempt).max(),
        Some(1),
        "handed back, no attempt used"
    );
}

/// As while a program starts anew that grew old.
#[tokio::test(start_paused = true)]
async fn jobs_wait_for_a_program_that_is_away_for_a_moment() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let first = Foreign::new(&lender);
    let engine = lending(&store, &lender, 3).await;
    let jobs = store.add("q", "lent", 3);
    while lender.offered() < 3 {
        sleep(Duration::from_millis(10)).await;
    }
    drop(first);
    sleep(Duration::from_millis(300)).await;
    let again = Foreign::new(&lender);
    let taken = again.take(3).await;
    sleep(LONG).await;
    again.complete(&taken);
    all(&store, &jobs, JobState::Completed).await;
    engine.shutdown().await;
    assert!(jobs.iter().all(|job| store.model().returns(*job) == 0));
}

/// Nobody was ever there.
#[tokio::test(start_paused = true)]
async fn a_worker_without_anybody_gives_back_batches_and_jobs_with_a_time_limit_too() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let wait = Duration::from_millis(100);
    let handlers =
        Handlers::default().lend_awaited("lent", &lender).lend_batch("batched", (3, wait), &lender);
    let engine = WorkerEngine::start(store.shared(), config(9), Arc::new(handlers)).await.unwrap();
    let jobs = [store.add("q", "lent", 3), store.add("q", "batched", 4)].concat();
    while lender.offered() < 7 {
        sleep(Duration::from_millis(10)).await;
    }
    lender.serve(&engine);
    rest_without_borrowers(vec![Lender::new(), lender.clone()], &engine);
    all(&store, &jobs, JobState::Available).await;
    assert_eq!(engine.stats().returned, 7);
    store.cancel(&jobs[..1]).await.unwrap();
    let foreign = Foreign::new(&lender);
    let mut taken = Vec::new();
    while taken.len() < 6 {
        taken.extend(foreign.take_batch().await);
    }
    foreign.complete(&taken);
    all(&store, &jobs[1..], JobState::Completed).await;
    engine.shutdown().await;
}

/// Counts these calls from now on.
fn counted(store: &FakeStore, which: Call) -> Arc<AtomicUsize> {
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    store.plan(move |call| {
        count.fetch_add(usize::from(call == which), Ordering::SeqCst);
        Fault::None
    });
    calls
}
