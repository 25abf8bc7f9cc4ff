//! How the jobs of a batch end: each by its own outcome, and what ends all of them.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};
use windlass_core::{Args, CancelReply, ErrorKind, JobId, JobState, JobStore, NewJob, Outcome};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(60);

async fn start(store: &FakeStore, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config(2), Arc::new(handlers)).await.unwrap()
}

/// Waits, on the paused clock, until a job is in this state.
async fn until(store: &FakeStore, job: JobId, state: JobState) {
    let began = Instant::now();
    while store.model().job(job).state != state {
        assert!(began.elapsed() < 100 * LIMIT, "job {job} never is {state}");
        sleep(Duration::from_millis(1)).await;
    }
}

fn row(attempts: u16) -> NewJob {
    NewJob::new("row", Args::parse("{}").unwrap()).with_queue("q").with_max_attempts(attempts)
}

fn failed(error: &str) -> Outcome {
    Outcome::Retry { after: None, error: error.into() }
}

#[tokio::test(start_paused = true)]
async fn each_job_has_its_own_outcome() {
    let store = FakeStore::new();
    let outcomes = || {
        vec![
            Outcome::Complete(None),
            Outcome::complete_with(&7),
            failed("no space"),
            Outcome::Snooze(100 * LIMIT),
            Outcome::Cancel("unwanted".into()),
            Outcome::Discard("malformed".into()),
        ]
    };
    let handlers = Handlers::default().on_batch("row", (6, LIMIT), None, move |_| async move { outcomes() });
    let jobs = store.add("q", "row", 6);
    let engine = start(&store, handlers).await;
    use JobState::{Cancelled, Completed, Discarded, Retryable, Scheduled};
    for (job, state) in jobs.iter().zip([Completed, Completed, Retryable, Scheduled, Cancelled, Discarded]) {
        until(&store, *job, state).await;
    }
    engine.shutdown().await;
    let mut model = store.model();
    assert_eq!(model.job(jobs[1]).result, Some(Args::of(&7).unwrap()));
    assert_eq!(model.errors(jobs[2]), ["no space"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_all_and_so_does_what_is_no_answer() {
    type Answer = fn() -> Vec<Outcome>;
    let cases: [(Answer, [&str; 2]); 3] = [
        (|| panic!("no route"), ["handler panicked: no route"; 2]),
        (|| vec![failed("first")], ["first", "the handler of a batch of 2 gave 1 outcomes"]),
        (|| vec![failed("each"); 3], ["each"; 2]),
    ];
    for (answer, errors) in cases {
        let store = FakeStore::new();
        let handlers = Handlers::default().on_batch("row", (2, LIMIT), None, move |_| async move {
            sleep(SECOND).await;
            answer()
        });
        let jobs = store.model().enqueue(&[row(1), row(1)], 0).unwrap();
        let engine = start(&store, handlers).await;
        for (job, error) in jobs.iter().zip(errors) {
            until(&store, *job, JobState::Discarded).await;
            assert_eq!(store.model().errors(*job), [error]);
        }
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_future_fails_all() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on_batch("row", (2, LIMIT), None, |jobs: Vec<Context>| {
        assert!(jobs.is_empty(), "not today");
        async { Vec::new() }
    });
    let jobs = store.model().enqueue(&[row(1), row(1)], 0).unwrap();
    let engine = start(&store, handlers).await;
    for job in jobs {
        until(&store, job, JobState::Discarded).await;
    }
    engine.shutdown().await;
}

/// The batch has the time of its kind, or of the job with the least of its own.
#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_too_long_is_told_and_dropped() {
    for (own, time) in [(None, LIMIT), (Some(LIMIT / 2), LIMIT / 2)] {
        let store = FakeStore::new();
        let (sender, mut told) = mpsc::unbounded_channel();
        let handlers = Handlers::default().on_batch("row", (3, LIMIT), Some(LIMIT), move |jobs| {
            let sender = sender.clone();
            async move {
                for job in jobs {
                    job.cancelled().await;
                    assert!(!job.is_cancel_requested());
                    sender.send(Instant::now()).unwrap();
                }
                pending().await
            }
        });
        let first = own.map_or(row(1), |own| row(1).with_timeout(own));
        let jobs = store.model().enqueue(&[row(1), first, row(1)], 0).unwrap();
        let began = Instant::now();
        let engine = start(&store, handlers).await;
        for job in jobs {
            until(&store, job, JobState::Discarded).await;
            let dropped = format!("timeout after {time:?}: the handler went on for 5s more and was dropped");
            assert_eq!(store.model().errors(job), [dropped]);
        }
        assert_eq!(began.elapsed().as_secs(), time.as_secs() + 5);
        for _ in 0..3 {
            assert_eq!((told.recv().await.unwrap() - began).as_secs(), time.as_secs());
        }
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_done_when_the_time_is_over_is_done() {
    let store = FakeStore::new();
    let handlers =
        Handlers::default().on_batch("row", (2, LIMIT), Some(LIMIT), |jobs: Vec<Context>| async move {
            jobs[0].cancelled().await;
            vec![Outcome::Complete(None), failed("half done")]
        });
    let jobs = store.model().enqueue(&[row(1), row(1)], 0).unwrap();
    let engine = start(&store, handlers).await;
    until(&store, jobs[0], JobState::Completed).await;
    until(&store, jobs[1], JobState::Discarded).await;
    assert_eq!(store.model().errors(jobs[1]), ["timeout after 60s: half done"]);
    engine.shutdown().await;
}

async fn cancel(store: &FakeStore, job: JobId) {
    assert_eq!(store.cancel(&[job]).await.unwrap(), [CancelReply::Running]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_leaves_its_batch_or_is_told_in_it() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on_batch("row", (10, LIMIT), None, |jobs: Vec<Context>| async move {
        sleep(LIMIT).await;
        jobs.iter()
            .map(|job| if job.is_cancelled() { failed("stopped") } else { Outcome::Complete(None) })
            .collect()
    });
    let jobs = store.add("q", "row", 3);
    let engine = start(&store, handlers).await;
    until(&store, jobs[0], JobState::Running).await;
    cancel(&store, jobs[0]).await; // it waits
    until(&store, jobs[0], JobState::Cancelled).await; // when its batch starts, not when that ends
    assert_eq!(engine.stats().running, 2);
    cancel(&store, jobs[1]).await; // it runs
    until(&store, jobs[1], JobState::Cancelled).await;
    assert_eq!(store.model().job(jobs[1]).reason.as_deref(), Some("cancelled by request: stopped"));
    until(&store, jobs[2], JobState::Completed).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_dropped_when_all_its_jobs_are_cancelled() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on_batch("row", (2, LIMIT), None, |_| pending());
    let jobs = store.add("q", "row", 2);
    let engine = start(&store, handlers).await;
    until(&store, jobs[1], JobState::Running).await;
    cancel(&store, jobs[1]).await;
    sleep(10 * LIMIT).await;
    assert_eq!(store.model().job(jobs[1]).state, JobState::Running, "the other goes on");
    let asked = Instant::now();
    cancel(&store, jobs[0]).await;
    for job in jobs {
        until(&store, job, JobState::Cancelled).await;
    }
    assert_eq!(asked.elapsed().as_secs(), WorkerConfig::DEFAULT_TIMEOUT_GRACE.as_secs());
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_expires_while_it_waits_is_not_run() {
    let store = FakeStore::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let handlers = Handlers::default().on_batch("row", (10, LIMIT), None, move |jobs| {
        count.fetch_add(jobs.len(), Ordering::SeqCst);
        async move { vec![Outcome::Complete(None); jobs.len()] }
    });
    let soon = row(1).with_expiry(LIMIT / 2);
    let jobs = store.model().enqueue(&[soon, row(1)], 0).unwrap();
    let engine = start(&store, handlers).await;
    until(&store, jobs[0], JobState::Cancelled).await;
    until(&store, jobs[1], JobState::Completed).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspect_runs_by_itself() {
    let store = FakeStore::new();
    let (sender, mut sizes) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on_batch("row", (10, SECOND), None, move |jobs| {
        sender.send(jobs.len()).unwrap();
        async move { vec![Outcome::Complete(None); jobs.len()] }
    });
    store.model().enqueue(&[row(3), row(3)], 0).unwrap();
    let suspect = store.model().enqueue(&[row(3)], 2).unwrap()[0];
    let engine = start(&store, handlers).await;
    until(&store, suspect, JobState::Completed).await;
    assert_eq!(sizes.recv().await, Some(1));
    assert_eq!(sizes.recv().await, Some(2));
    engine.shutdown().await;
    assert_eq!(store.model().suspects, [Some(suspect), None]);
}

/// Those that wait are dropped unstarted, the batch that runs is told and dropped; whoever has the jobs now runs them.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_waiting_and_running_batches() {
    let store = FakeStore::new();
    let (begun, first) = (Arc::new(Notify::new()), AtomicUsize::new(0));
    let begins = Arc::clone(&begun);
    let handlers = Handlers::default().on_batch("row", (2, SECOND), None, move |jobs| {
        let first = first.fetch_add(1, Ordering::SeqCst) == 0;
        begins.notify_one();
        async move {
            if first {
                pending::<()>().await;
            }
            vec![Outcome::Complete(None); jobs.len()]
        }
    });
    store.add("q", "row", 3);
    let engine = start(&store, handlers).await;
    begun.notified().await;
    store.plan(|call| match call {
        Call::Heartbeat => Fault::Fail(ErrorKind::LeaseLost),
        _ => Fault::None,
    });
    let lost = store.model().registered[0];
    while engine.stats().running > 0 {
        sleep(SECOND).await;
    }
    store.come_back();
    store.deregister(lost).await.unwrap();
    store.announce();
    store.until("run again", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_of_each_job_is_kept() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on_batch("row", (3, SECOND), None, |jobs: Vec<Context>| async move {
        for (at, job) in jobs.iter().enumerate() {
            job.log(format!("row {at}"));
        }
        jobs[1].checkpoint(&"here").await.unwrap();
        vec![failed("not yet"); 3]
    });
    let jobs = store.add("q", "row", 3);
    let engine = start(&store, handlers).await;
    for (at, job) in jobs.iter().enumerate() {
        until(&store, *job, JobState::Retryable).await;
        let report = store.model().job(*job).report.expect("it said something");
        assert_eq!(report.log[0].text, format!("row {at}"));
    }
    assert_eq!(store.checkpoints(&jobs[1..2]).await.unwrap()[0], Some(Args::of("here").unwrap()));
    engine.shutdown().await;
}
