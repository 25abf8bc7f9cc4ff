//! A job that was not started in time is cancelled, never run late.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use windlass_core::{Args, JobId, JobState, NewJob, RetryPolicy};
use windlass_runtime::{Context, EngineHandle, WorkerEngine};

const LIMIT: Duration = Duration::from_secs(60);

async fn start(store: &FakeStore, concurrency: usize, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config(concurrency), Arc::new(handlers)).await.unwrap()
}

fn job(kind: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("q")
}

fn enqueue(store: &FakeStore, job: NewJob, crash_count: u16) -> JobId {
    store.model().enqueue(&[job], crash_count).unwrap()[0]
}

/// Waits, on the paused clock, until a job is in this state.
async fn until(store: &FakeStore, job: JobId, state: JobState) {
    let began = Instant::now();
    while store.model().job(job).state != state {
        assert!(began.elapsed() < 100 * LIMIT, "job {job} never is {state}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a job is cancelled as expired.
async fn expires(store: &FakeStore, job: JobId) {
    until(store, job, JobState::Cancelled).await;
    let record = store.model().job(job);
    let expected = format!("expired: it was not started by {}", record.expires_at.expect("it expires"));
    assert_eq!(record.reason, Some(expected));
}

/// Handlers that tell when they start jobs of kind `told`, and one that takes this long.
fn telling(slow: Duration) -> (Handlers, mpsc::UnboundedReceiver<JobId>) {
    let (sender, started) = mpsc::unbounded_channel();
    let told = move |ctx: Context| {
        assert!(ctx.expires_at().is_some());
        sender.send(ctx.id()).unwrap();
        async {}
    };
    (Handlers::default().on("told", told).on("slow", move |_| sleep(slow)), started)
}

/// All that was sent.
fn rest<T>(receiver: &mut mpsc::UnboundedReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| receiver.try_recv().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_waited_too_long_is_cancelled_and_the_rest_runs() {
    let store = FakeStore::new();
    let (handlers, mut started) = telling(LIMIT);
    let late = enqueue(&store, job("told").with_expiry(LIMIT), 0);
    let unknown = enqueue(&store, job("unheard_of").with_expiry(LIMIT), 0);
    sleep(LIMIT).await;
    let timely = enqueue(&store, job("told").with_expiry(LIMIT), 0);
    let engine = start(&store, 4, handlers).await;
    expires(&store, late).await;
    expires(&store, unknown).await;
    until(&store, timely, JobState::Completed).await;
    engine.shutdown().await;
    assert_eq!(rest(&mut started), [timely]);
    let stats = engine.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.no_handler), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_claimed_job_that_waits_for_an_executor_expires_too() {
    let store = FakeStore::new();
    // What takes long to claim is fetched ahead.
    store.plan(|call| match call {
        Call::Claim => Fault::Slow(Duration::from_millis(50)),
        _ => Fault::None,
    });
    let (handlers, mut started) = telling(2 * LIMIT);
    let handlers = handlers.on("quick", |_| sleep(Duration::from_millis(1)));
    store.add("q", "quick", 500);
    let slow = enqueue(&store, job("slow"), 0);
    let late = enqueue(&store, job("told").with_expiry(LIMIT), 0);
    let timely = enqueue(&store, job("told").with_expiry(3 * LIMIT), 0);
    let engine = start(&store, 1, handlers).await;
    until(&store, timely, JobState::Running).await;
    assert_eq!(store.model().job(slow).state, JobState::Running, "the others wait for its executor");
    expires(&store, late).await;
    until(&store, timely, JobState::Completed).await;
    engine.shutdown().await;
    assert_eq!(rest(&mut started), [timely]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_may_end_after_its_time() {
    let store = FakeStore::new();
    let (handlers, _) = telling(3 * LIMIT);
    let id = enqueue(&store, job("slow").with_expiry(LIMIT), 0);
    let engine = start(&store, 1, handlers).await;
    until(&store, id, JobState::Completed).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_of_the_store_takes_from_the_time_that_is_left() {
    let store = FakeStore::new();
    let (handlers, mut started) = telling(LIMIT);
    let late = enqueue(&store, job("told").with_expiry(LIMIT), 0);
    let mut slow = true;
    store.plan(move |call| match call {
        // Claims at once, and answers when the time is over.
        Call::Claim if std::mem::take(&mut slow) => {
            Fault::Late { before: Duration::ZERO, happens: true, after: LIMIT, error: None }
        }
        _ => Fault::None,
    });
    let engine = start(&store, 1, handlers).await;
    expires(&store, late).await;
    engine.shutdown().await;
    assert_eq!(rest(&mut started), []);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_the_time_does_not_start() {
    let store = FakeStore::new();
    let (sender, mut attempts) = mpsc::unbounded_channel();
    let fails = move |ctx: Context| {
        sender.send(ctx.attempt()).unwrap();
        async { Err::<(), _>("no route") }
    };
    let policy = RetryPolicy::fixed(Duration::from_secs(25));
    let id = enqueue(&store, job("fails").with_retry_policy(policy).with_expiry(LIMIT), 0);
    let engine = start(&store, 1, Handlers::default().on("fails", fails)).await;
    expires(&store, id).await;
    engine.shutdown().await;
    assert_eq!(rest(&mut attempts), [1, 2, 3], "at 0, 25 and 50 s");
    assert_eq!(store.model().errors(id), ["no route"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_waits_for_another_expires() {
    let store = FakeStore::new();
    let (handlers, mut started) = telling(2 * LIMIT);
    let slow = enqueue(&store, job("slow"), 2);
    let late = enqueue(&store, job("told").with_expiry(LIMIT), 2);
    let engine = start(&store, 2, handlers).await;
    until(&store, slow, JobState::Completed).await;
    expires(&store, late).await;
    engine.shutdown().await;
    assert_eq!(rest(&mut started), []);
    assert_eq!(store.model().suspects.last(), Some(&None), "nobody is blamed any more");
}
