//! Jobs of a batched kind start together: how many, when, and beside what else.

use crate::fake::{FakeStore, Handlers, config};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{JobId, JobState, JobStore, Outcome, QueueLimits, RateLimit};
use windlass_runtime::{EngineHandle, Settling, WorkerConfig, WorkerEngine};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const MINUTES: Duration = Duration::from_secs(600);

/// The batches that ran: which jobs, and when.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

type Call = (Instant, Vec<JobId>);

impl Calls {
    /// A handler of the kind `row` that takes so long and completes everything.
    pub(crate) fn handlers(&self, most: usize, wait: Duration, takes: Duration) -> Handlers {
        let calls = self.clone();
        Handlers::default().on_batch("row", (most, wait), None, move |jobs| {
            let ids: Vec<_> = jobs.iter().map(|job| job.id()).collect();
            calls.0.lock().unwrap().push((Instant::now(), ids));
            async move {
                sleep(takes).await;
                vec![Outcome::Complete(None); jobs.len()]
            }
        })
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.0.lock().unwrap().iter().map(|(_, jobs)| jobs.len()).collect()
    }

    pub(crate) fn jobs(&self) -> usize {
        self.sizes().iter().sum()
    }
}

async fn start(store: &FakeStore, config: WorkerConfig, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

/// Waits, on the paused clock.
pub(crate) async fn until(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < HOUR, "not reached: {what}");
        sleep(MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_starts_at_once_and_what_is_left_when_it_has_waited() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    let began = Instant::now();
    store.add("q", "row", 10);
    let engine = start(&store, config(1), calls.handlers(4, 60 * SECOND, Duration::ZERO)).await;
    until("two full ones", || calls.jobs() == 8).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    sleep(50 * SECOND).await;
    assert_eq!((calls.sizes(), engine.stats().ready), (vec![4, 4], 2));
    until("the rest", || calls.jobs() == 10).await;
    assert_eq!(calls.sizes(), [4, 4, 2]);
    assert_eq!(began.elapsed().as_secs(), 60);
    store.until("settled", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_come_one_by_one_meet() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    let engine = start(&store, config(10), calls.handlers(100, SECOND, Duration::ZERO)).await;
    for _ in 0..25 {
        store.add("q", "row", 1);
        sleep(100 * MS).await;
    }
    until("all", || calls.jobs() == 25).await;
    let sizes = calls.sizes();
    assert!(
        (3..=4).contains(&sizes.len()) && sizes[..2].iter().all(|size| (8..=11).contains(size)),
        "{sizes:?}"
    );
    engine.shutdown().await;
}

/// A backlog is worked in full batches also where no job waits for others.
#[tokio::test(start_paused = true)]
async fn batches_fill_from_a_backlog() {
    for wait in [Duration::ZERO, 20 * MS] {
        let (store, calls) = (FakeStore::new(), Calls::default());
        store.plan(|_| crate::fake::Fault::Slow(MS));
        store.add("q", "row", 5_000);
        let engine = start(&store, config(2), calls.handlers(100, wait, 10 * MS)).await;
        until("all", || calls.jobs() == 5_000).await;
        let sizes = calls.sizes();
        assert!(sizes.len() < 60, "{sizes:?}");
        store.until("settled", |model| model.all_completed()).await;
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_occupies_one_executor() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    store.add("q", "row", 50);
    let engine = start(&store, config(3), calls.handlers(5, SECOND, MINUTES)).await;
    until("three batches", || engine.stats().running == 15).await;
    sleep(5 * SECOND).await;
    assert_eq!((calls.sizes(), engine.stats().running), (vec![5; 3], 15));
    engine.abort_now();
    engine.wait().await;
    assert_eq!(store.model().count(JobState::Available), 50);
}

#[tokio::test(start_paused = true)]
async fn other_kinds_go_on_while_a_batch_comes_together() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    let handlers = calls.handlers(10, 30 * SECOND, Duration::ZERO).on("other", |_| sleep(SECOND));
    let rows = store.add("q", "row", 2);
    let others = store.add("q", "other", 5);
    let engine = start(&store, config(1), handlers).await;
    let completed = |id: &JobId| store.model().job(*id).state == JobState::Completed;
    until("the others", || others.iter().all(completed)).await;
    assert!(!rows.iter().any(completed) && calls.jobs() == 0);
    until("the batch", || rows.iter().all(completed)).await;
    assert_eq!(calls.sizes(), [2]);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn kinds_are_not_mixed_and_each_has_its_own_wait() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    let late = Arc::new(Mutex::new(None));
    let handlers = calls.handlers(10, 30 * SECOND, Duration::ZERO);
    let at = Arc::clone(&late);
    let handlers = handlers.on_batch("line", (10, 5 * SECOND), None, move |jobs| {
        *at.lock().unwrap() = Some((Instant::now(), jobs.len()));
        async move { vec![Outcome::Complete(None); jobs.len()] }
    });
    let began = Instant::now();
    for kind in ["row", "line", "row", "line"] {
        store.add("q", kind, 1);
    }
    let engine = start(&store, config(1), handlers).await;
    until("the rows", || calls.jobs() == 2).await;
    let (at, lines) = late.lock().unwrap().unwrap();
    assert_eq!(((at - began).as_secs(), lines, began.elapsed().as_secs()), (5, 2, 30));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_back_what_waits_and_lets_a_batch_end() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    let jobs = store.add("q", "row", 7);
    let engine = start(&store, config(2), calls.handlers(5, MINUTES, 10 * SECOND)).await;
    until("one runs", || engine.stats().running == 5 && engine.stats().ready == 2).await;
    let began = Instant::now();
    engine.stop();
    until("the waiting are back", || store.model().count(JobState::Available) == 2).await;
    assert!(began.elapsed() < SECOND, "at once, for others to run them");
    engine.wait().await;
    assert!(began.elapsed() > 9 * SECOND && calls.sizes() == [5]);
    assert_eq!(store.model().count(JobState::Completed), 5);
    assert!(jobs[5..].iter().all(|job| store.model().returns(*job) == 1));
}

#[tokio::test(start_paused = true)]
async fn strict_settling_waits_for_all_jobs_of_the_batch() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    store.add("q", "row", 30);
    let config = WorkerConfig { settling: Settling::Strict, ..config(1) };
    let engine = start(&store, config, calls.handlers(10, SECOND, Duration::ZERO)).await;
    store.until("settled", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(calls.jobs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_limit_counts_jobs() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    store.limit("q", &QueueLimits::default().with_concurrency(7)).await.unwrap();
    store.add("q", "row", 70);
    let engine = start(&store, config(3), calls.handlers(5, 100 * MS, SECOND)).await;
    let mut most = 0;
    while calls.jobs() < 70 {
        most = most.max(engine.stats().running);
        sleep(50 * MS).await;
    }
    assert_eq!(most, 7);
    store.until("settled", |model| model.all_completed()).await;
    engine.shutdown().await;
}

/// Longer than it takes until slots that are not used are given back.
#[tokio::test(start_paused = true)]
async fn a_batch_that_waits_long_in_a_limited_queue_starts() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    store.limit("q", &QueueLimits::default().with_concurrency(7)).await.unwrap();
    store.add("q", "row", 3);
    let engine = start(&store, config(3), calls.handlers(50, 20 * SECOND, SECOND)).await;
    store.until("settled", |model| model.all_completed()).await;
    assert_eq!(calls.sizes(), [3]);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_window_has_more_starts_than_the_rate_allows() {
    let (store, calls) = (FakeStore::new(), Calls::default());
    store.limit("q", &QueueLimits::default().with_rate(RateLimit::new(20, SECOND))).await.unwrap();
    store.add("q", "row", 100);
    let engine = start(&store, config(3), calls.handlers(5, 100 * MS, 10 * MS)).await;
    let began = Instant::now();
    store.until("settled", |model| model.all_completed()).await;
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    engine.shutdown().await;
    let starts = calls.0.lock().unwrap();
    let in_window = |from: Instant| {
        let inside = starts.iter().filter(|(at, _)| (from..from + SECOND).contains(at));
        inside.map(|(_, jobs)| jobs.len()).sum::<usize>()
    };
    assert!(starts.iter().all(|(at, _)| in_window(*at) <= 20), "{starts:?}");
}
