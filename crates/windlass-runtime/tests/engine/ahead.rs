//! What a worker claimed ahead does not wait with it while others have free places.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use windlass_core::{JobId, JobState, JobStore, Outcome};
use windlass_runtime::{EngineHandle, WorkerConfig, WorkerEngine};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A store whose claims take long beside the jobs, so that workers claim ahead.
fn store() -> FakeStore {
    let store = FakeStore::new();
    store.plan(|call| match call {
        Call::Claim => Fault::Slow(50 * MS),
        _ => Fault::None,
    });
    store
}

async fn worker(store: &FakeStore, client: usize, config: WorkerConfig, handlers: Handlers) -> EngineHandle {
    let seen = Arc::new(store.seen_by(client));
    WorkerEngine::start(seen, config, Arc::new(handlers)).await.unwrap()
}

/// Quick jobs, then one that takes until it is told, which fills the only place of the one worker: it holds some of the quick ones behind it.
/// Answers with the last of them too.
async fn filled(store: &FakeStore, over: &Arc<Semaphore>) -> (EngineHandle, Vec<JobId>) {
    store.add("q", "quick", 400);
    store.add("q", "long", 1);
    let behind = store.add("q", "quick", 30);
    let over = Arc::clone(over);
    let handlers =
        Handlers::default().on("quick", |_| sleep(MS)).on("rare", |_| sleep(MS)).on("long", move |_| {
            let over = Arc::clone(&over);
            async move { over.acquire().await.unwrap().forget() }
        });
    let engine = worker(store, 0, config(1), handlers).await;
    store.until("the long job begins", |model| model.count(JobState::Completed) == 400).await;
    sleep(100 * MS).await;
    assert!(engine.stats().ready > 0, "some were claimed ahead: {:?}", engine.stats());
    (engine, behind)
}

#[tokio::test(start_paused = true)]
async fn jobs_behind_a_long_one_go_to_a_worker_with_free_places() {
    let (store, over) = (store(), Arc::new(Semaphore::new(0)));
    let (full, behind) = filled(&store, &over).await;
    let free = worker(&store, 1, config(1), Handlers::default().on("quick", |_| sleep(MS))).await;
    let began = Instant::now();
    store.until("all but the long one", |model| model.count(JobState::Completed) == 430).await;
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    let stats = full.stats();
    assert_eq!((stats.running, stats.ready, stats.unsettled), (1, 0, 0), "{stats:?}");
    assert!(stats.returned > 0);
    for job in behind {
        assert_eq!(store.model().job(job).attempt, 1, "handing back costs no attempt");
    }
    over.add_permits(1);
    store.until("all done", |model| model.all_completed()).await;
    full.shutdown().await;
    free.shutdown().await;
}

/// A job that waits for a worker which knows its kind says nothing about the others: who has free places does not take it.
#[tokio::test(start_paused = true)]
async fn they_go_also_while_a_job_waits_that_only_the_full_worker_knows() {
    let (store, over) = (store(), Arc::new(Semaphore::new(0)));
    let (full, _) = filled(&store, &over).await;
    let rare = store.add("q", "rare", 1)[0];
    let free = worker(&store, 1, config(1), Handlers::default().on("quick", |_| sleep(MS))).await;
    store.until("it waits", |_| free.stats().no_handler == 1).await;
    let began = Instant::now();
    store.until("all but the long one and it", |model| model.count(JobState::Completed) == 430).await;
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    assert_eq!(store.model().job(rare).state, JobState::Available, "its worker is full");
    over.add_permits(1);
    store.until("all done", |model| model.all_completed()).await;
    full.shutdown().await;
    free.shutdown().await;
}

/// Nobody else would take them sooner: the store has jobs that all others leave there.
#[tokio::test(start_paused = true)]
async fn they_stay_while_the_store_has_jobs_that_nobody_takes() {
    let (store, over) = (store(), Arc::new(Semaphore::new(0)));
    let (full, _) = filled(&store, &over).await;
    store.add("q", "quick", 10_000);
    let ready = full.stats().ready;
    sleep(60 * SECOND).await;
    let stats = full.stats();
    assert_eq!((stats.returned, stats.ready), (0, ready));
    over.add_permits(1);
    store.until("all done", |model| model.all_completed()).await;
    full.shutdown().await;
}

/// Wholly busy workers do not pass jobs around: neither beside a backlog, nor when it comes to an end.
#[tokio::test(start_paused = true)]
async fn a_busy_fleet_hands_few_back() {
    const WORKERS: usize = 5;
    let (store, quick) = (store(), Arc::new(AtomicBool::new(true)));
    store.add("q", "job", 5_000);
    let mut engines = Vec::new();
    for client in 0..WORKERS {
        let quick = Arc::clone(&quick);
        let handlers = Handlers::default().on("job", move |_| {
            let takes = if quick.load(Ordering::SeqCst) { MS } else { 10 * SECOND };
            sleep(takes)
        });
        engines.push(worker(&store, client, config(10), handlers).await);
    }
    let returned =
        |engines: &[EngineHandle]| engines.iter().map(|engine| engine.stats().returned).sum::<u64>();
    store.until("they are quick", |model| model.count(JobState::Completed) > 2_000).await;
    quick.store(false, Ordering::SeqCst);
    store.add("q", "job", 300);
    sleep(30 * SECOND).await;
    assert_eq!(returned(&engines), 0, "the store has jobs that nobody takes");
    let ready: usize = engines.iter().map(|engine| engine.stats().ready).sum();
    assert!(ready > 0, "they hold some that they claimed ahead");
    let done = store.model().count(JobState::Completed);
    while !store.model().all_completed() {
        sleep(SECOND).await;
    }
    let (returned, done) = (returned(&engines), store.model().count(JobState::Completed) - done);
    // What they held when the jobs became long goes back once; then one for eight that end.
    assert!(
        returned as usize <= ready + done / 8 + WORKERS,
        "{returned} returned, {done} done, {ready} held"
    );
    for engine in engines {
        engine.shutdown().await;
    }
}

/// A batch that waits for a place is several jobs that do.
#[tokio::test(start_paused = true)]
async fn whole_batches_go_back_too() {
    let (store, started) = (store(), Arc::new(AtomicUsize::new(0)));
    let jobs = store.add("q", "long", 8).len();
    let batch = |started: &Arc<AtomicUsize>| {
        let started = Arc::clone(started);
        Handlers::default().on_batch("long", (2, SECOND), None, move |jobs| {
            started.fetch_add(jobs.len(), Ordering::SeqCst);
            async move {
                sleep(60 * SECOND).await;
                jobs.iter().map(|_| Outcome::Complete(None)).collect()
            }
        })
    };
    let one = worker(&store, 0, config(1), batch(&started)).await;
    sleep(100 * MS).await;
    let other = worker(&store, 1, config(3), batch(&started)).await;
    sleep(5 * SECOND).await;
    assert_eq!(started.load(Ordering::SeqCst), jobs, "{:?} {:?}", one.stats(), other.stats());
    store.until("all done", |model| model.all_completed()).await;
    one.shutdown().await;
    other.shutdown().await;
    assert!(!store.any_available(&["q".to_owned()], &[]).await.unwrap());
}
