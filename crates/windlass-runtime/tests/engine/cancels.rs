//! A running job that somebody cancels is told to stop; it ends, and does not come back.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use windlass_core::{CancelReply, JobId, JobState, JobStore, NewJob, Outcome};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const LONG: Duration = Duration::from_secs(1_000);

async fn start(store: &FakeStore, config: WorkerConfig, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

async fn cancel(store: &FakeStore, job: JobId) {
    assert_eq!(store.cancel(&[job]).await.unwrap(), [CancelReply::Running]);
}

/// Waits, on the paused clock, until a job is in this state.
async fn until(store: &FakeStore, job: JobId, state: JobState) {
    let began = Instant::now();
    while store.model().job(job).state != state {
        assert!(began.elapsed() < LONG, "job {job} never is {state}");
        sleep(Duration::from_millis(1)).await;
    }
}

fn reason(store: &FakeStore, job: JobId) -> String {
    store.model().job(job).reason.expect("a reason")
}

#[tokio::test(start_paused = true)]
async fn the_token_fires_at_once_and_what_the_handler_then_says_counts() {
    let store = FakeStore::new();
    let (sender, mut told) = mpsc::unbounded_channel();
    let handler = |says: fn() -> Outcome| {
        let sender = sender.clone();
        move |ctx: Context| {
            let sender = sender.clone();
            async move {
                assert!(!ctx.is_cancelled() && !ctx.is_cancel_requested());
                ctx.cancelled().await;
                assert!(ctx.is_cancelled() && ctx.is_cancel_requested());
                sender.send(Instant::now()).unwrap();
                says()
            }
        }
    };
    let handlers = Handlers::default()
        .on("completes", handler(|| Outcome::Complete(None)))
        .on("returns", handler(|| Outcome::complete_with(&7)))
        .on("fails", handler(|| Outcome::Retry { after: None, error: "half done".into() }))
        .on("panics", handler(|| panic!("when told")))
        .on("snoozes", handler(|| Outcome::Snooze(LONG)))
        .on("discards", handler(|| Outcome::Discard("too large".into())))
        .on("cancels", handler(|| Outcome::Cancel("as you wish".into())));
    let kinds = ["completes", "returns", "fails", "panics", "snoozes", "discards", "cancels"];
    let jobs = kinds.map(|kind| store.add("q", kind, 1)[0]);
    let engine = start(&store, config(7), handlers).await;
    for job in jobs {
        until(&store, job, JobState::Running).await;
    }
    let asked = Instant::now();
    for job in jobs {
        cancel(&store, job).await;
    }
    for _ in jobs {
        let told = timeout(LONG, told.recv()).await.unwrap().unwrap();
        assert!(told - asked < Duration::from_millis(100), "{:?}", told - asked);
    }
    use JobState::{Cancelled, Completed, Discarded};
    let ends = [Completed, Completed, Cancelled, Cancelled, Cancelled, Discarded, Cancelled];
    for (job, end) in jobs.into_iter().zip(ends) {
        until(&store, job, end).await;
    }
    assert_eq!(reason(&store, jobs[2]), "cancelled by request: half done");
    assert_eq!(reason(&store, jobs[3]), "cancelled by request: handler panicked: when told");
    assert_eq!(reason(&store, jobs[4]), "cancelled by request");
    assert_eq!(reason(&store, jobs[6]), "as you wish");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_listen_is_dropped_after_the_grace_and_its_neighbours_run_on() {
    let store = FakeStore::new();
    let handlers =
        Handlers::default().on("hangs", |_| pending::<()>()).on("works", |ctx: Context| async move {
            sleep(Duration::from_secs(60)).await;
            assert!(!ctx.is_cancelled());
        });
    let (hanging, working) = (store.add("q", "hangs", 1)[0], store.add("q", "works", 1)[0]);
    let engine = start(&store, config(2), handlers).await;
    until(&store, working, JobState::Running).await;
    let asked = Instant::now();
    cancel(&store, hanging).await;
    until(&store, hanging, JobState::Cancelled).await;
    assert_eq!(asked.elapsed().as_secs(), WorkerConfig::DEFAULT_TIMEOUT_GRACE.as_secs());
    assert_eq!(
        reason(&store, hanging),
        "cancelled by request; the handler went on for 5s more and was dropped"
    );
    until(&store, working, JobState::Completed).await;
    engine.shutdown().await;
}

/// A worker whose claims take long, and whose jobs do not, claims ahead.
#[tokio::test(start_paused = true)]
async fn a_claimed_job_that_is_not_started_never_is() {
    let store = FakeStore::new();
    store.plan(|call| match call {
        Call::Claim => Fault::Slow(Duration::from_millis(50)),
        _ => Fault::None,
    });
    let (sender, mut started) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("quick", |_| sleep(Duration::from_millis(1))).on(
        "waits",
        move |ctx: Context| {
            sender.send(ctx.id()).unwrap();
            async move { ctx.cancelled().await }
        },
    );
    store.add("q", "quick", 500);
    let jobs = store.add("q", "waits", 3);
    let engine = start(&store, config(1), handlers).await;
    until(&store, jobs[2], JobState::Running).await;
    assert_eq!(started.recv().await, Some(jobs[0]));
    assert_eq!(store.model().job(jobs[0]).state, JobState::Running);
    cancel(&store, jobs[1]).await;
    cancel(&store, jobs[0]).await;
    until(&store, jobs[1], JobState::Cancelled).await;
    assert_eq!(reason(&store, jobs[1]), "cancelled by request");
    assert_eq!(started.recv().await, Some(jobs[2]));
    cancel(&store, jobs[2]).await;
    until(&store, jobs[2], JobState::Completed).await;
    engine.shutdown().await;
    assert!(started.try_recv().is_err(), "the one between never starts");
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_brings_what_no_hint_told() {
    let store = FakeStore::new();
    let (sender, mut told) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("waits", move |ctx: Context| {
        let sender = sender.clone();
        async move {
            ctx.cancelled().await;
            sender.send(()).unwrap();
        }
    });
    let job = store.add("q", "waits", 1)[0];
    let engine = start(&store, config(1), handlers).await;
    until(&store, job, JobState::Running).await;
    // Of the store itself: the engine's way to be told is not asked.
    store.model().run(async |store| store.request_cancel_silently(job));
    let asked = Instant::now();
    timeout(LONG, told.recv()).await.unwrap().unwrap();
    assert!(asked.elapsed() <= WorkerConfig::DEFAULT_LEASE / 3, "{:?}", asked.elapsed());
    until(&store, job, JobState::Completed).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_cancelled_and_retried_runs_undisturbed() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on("waits", |ctx: Context| async move {
        tokio::select! {
            () = ctx.cancelled() => Outcome::Retry { after: None, error: "stopped".into() },
            () = sleep(Duration::from_secs(60)) => Outcome::Complete(None),
        }
    });
    let job = store.add("q", "waits", 1)[0];
    let engine = start(&store, config(1), handlers).await;
    until(&store, job, JobState::Running).await;
    cancel(&store, job).await;
    until(&store, job, JobState::Cancelled).await;
    store.retry(&[job]).await.unwrap();
    store.announce();
    until(&store, job, JobState::Completed).await;
    let other = store
        .enqueue(&[NewJob::new("waits", windlass_core::Args::parse("{}").unwrap()).with_queue("q")])
        .await
        .unwrap();
    until(&store, other[0], JobState::Completed).await;
    engine.shutdown().await;
}
