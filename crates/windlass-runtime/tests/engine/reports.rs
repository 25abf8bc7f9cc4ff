//! What handlers say of their jobs: few calls however much they say, seen while they run, and nothing lost that they were
//! told is kept.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use windlass_core::{ErrorKind, HandlerReport, JobId, JobState, Outcome, Progress};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const SECOND: Duration = Duration::from_secs(1);

async fn start(store: &FakeStore, concurrency: usize, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config(concurrency), Arc::new(handlers)).await.unwrap()
}

fn said(store: &FakeStore, job: JobId) -> HandlerReport {
    *store.model().job(job).report.expect("something was said")
}

fn texts(report: &HandlerReport) -> Vec<&str> {
    report.log.iter().map(|line| line.text.as_str()).collect()
}

/// Sends what a handler got back, so that the test can look at it.
type Sender<T> = mpsc::UnboundedSender<T>;

#[tokio::test(start_paused = true)]
async fn what_many_jobs_say_goes_out_twice_a_second_and_the_last_of_it_before_they_are_settled() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on("job", |ctx: Context| async move {
        for n in 0..1_000_u32 {
            ctx.progress((f64::from(n) / 10.0, format!("step {n}")))?;
            ctx.log(format!("did {n}"));
            sleep(SECOND / 100).await;
        }
        ctx.progress(100.0)?;
        ctx.log("done");
        Ok::<(), windlass_core::Error>(())
    });
    let ids = store.add("q", "job", 200);
    let engine = start(&store, 200, handlers).await;
    sleep(5 * SECOND).await;
    let report = said(&store, ids[0]);
    let percent = report.progress.as_ref().unwrap().percent;
    assert!((40.0..=50.0).contains(&percent), "{report:?}");
    assert_eq!((report.log.len(), report.attempt), (100, 1));
    store.until("all completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    for id in ids {
        let report = said(&store, id);
        assert_eq!(report.progress, Some(Progress::from(100.0)));
        assert_eq!((report.log.len(), report.log_dropped), (100, 901));
        assert_eq!(texts(&report)[98..], ["did 999", "done"]);
    }
    // 200 jobs for 10 s: some 20 calls, and those that end at one time share theirs.
    let calls = store.model().reports.len();
    assert!((15..=30).contains(&calls), "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_costs_nothing() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on("job", |ctx: Context| async move { drop(ctx.clone()) });
    store.add("q", "job", 10_000);
    let engine = start(&store, 10, handlers).await;
    store.until("all completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert!(store.model().reports.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_line_before_every_kind_of_end_is_kept() {
    let store = FakeStore::new();
    let says = |says: fn() -> Outcome| {
        move |ctx: Context| async move {
            ctx.log("last words");
            says()
        }
    };
    let handlers = Handlers::default()
        .on("completes", says(|| Outcome::Complete(None)))
        .on("returns", says(|| Outcome::complete_with(&7)))
        .on("fails", says(|| Outcome::Retry { after: None, error: "no".into() }))
        .on("panics", says(|| panic!("no")))
        .on("snoozes", says(|| Outcome::Snooze(1_000 * SECOND)))
        .on("discards", says(|| Outcome::Discard("no".into())))
        .with_timeout("stalls", SECOND, |ctx: Context| async move {
            ctx.log("last words");
            pending::<()>().await;
        });
    let kinds = ["completes", "returns", "fails", "panics", "snoozes", "discards", "stalls"];
    let jobs = kinds.map(|kind| store.add("q", kind, 1)[0]);
    // One executor: who waits for the store keeps nobody from anything, but one job at a time.
    let engine = start(&store, 1, handlers).await;
    store
        .until("all settled", |model| {
            jobs.iter().all(|job| !matches!(model.job(*job).state, JobState::Running | JobState::Available))
        })
        .await;
    for job in jobs {
        assert_eq!(texts(&said(&store, job)), ["last words"]);
    }
    engine.shutdown().await;
}

/// Works through parts, of which the checkpoint tells how many are done.
async fn in_parts(ctx: Context, begun: Sender<u32>, stop_at: u32) -> windlass_core::Result<()> {
    let done = ctx.last_checkpoint::<u32>().await?.unwrap_or(0);
    for part in done..10 {
        begun.send(part).unwrap();
        if part == stop_at {
            pending::<()>().await;
        }
        ctx.checkpoint(&(part + 1)).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_survives_the_death_of_its_worker() {
    let store = FakeStore::new();
    store.lock().leases_run_out = true;
    let (sender, mut begun) = mpsc::unbounded_channel();
    let worker = |client: usize, stop_at: u32| {
        let sender = sender.clone();
        let handlers = Handlers::default().on("job", move |ctx| in_parts(ctx, sender.clone(), stop_at));
        let seen = Arc::new(store.seen_by(client));
        let config = WorkerConfig { lease: 3 * SECOND, ..config(1) };
        async move { WorkerEngine::start(seen, config, Arc::new(handlers)).await.unwrap() }
    };
    let mortal = worker(1, 6).await;
    let job = store.add("q", "job", 1)[0];
    let mut parts = Vec::new();
    while parts.last() != Some(&6) {
        parts.push(begun.recv().await.unwrap());
    }
    store.kill(1);
    let heir = worker(2, u32::MAX).await;
    store.until("completed", |model| model.all_completed()).await;
    while let Ok(part) = begun.try_recv() {
        parts.push(part);
    }
    assert_eq!(parts, [0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9], "only the part that was not kept is done again");
    assert_eq!(said(&store, job).checkpoint.unwrap().as_str(), "10");
    heir.shutdown().await;
    mortal.abort_now();
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_waits_for_the_store_and_is_kept_once() {
    let store = FakeStore::new();
    let (sender, mut begun) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("job", move |ctx: Context| {
        ctx.log("begun");
        in_parts(ctx, sender.clone(), u32::MAX)
    });
    let mut calls = 0;
    store.plan(move |call| {
        calls += u32::from(call == Call::Report);
        match (call, calls) {
            (Call::Report, 1) => Fault::Fail(ErrorKind::Unavailable),
            (Call::Report, 2 | 4) => Fault::LoseReply,
            _ => Fault::None,
        }
    });
    let job = store.add("q", "job", 1)[0];
    let engine = start(&store, 1, handlers).await;
    store.until("completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    let report = said(&store, job);
    assert_eq!(
        (texts(&report), report.log_dropped),
        (vec!["begun"], 0),
        "a call that was repeated adds nothing"
    );
    assert_eq!(std::iter::from_fn(|| begun.try_recv().ok()).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn checkpoints_of_many_jobs_share_calls_and_wait_for_no_interval() {
    let store = FakeStore::new();
    let (sender, _begun) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("job", move |ctx| in_parts(ctx, sender.clone(), u32::MAX));
    store.plan(|call| if call == Call::Report { Fault::Slow(Duration::from_millis(2)) } else { Fault::None });
    store.add("q", "job", 100);
    let (engine, began) = (start(&store, 100, handlers).await, Instant::now());
    store.until("all completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert!(began.elapsed() < SECOND, "after {:?}", began.elapsed());
    let calls = store.model().reports.len();
    assert!(calls <= 60, "{calls} calls for 1,000 checkpoints");
}

/// What a handler is told of its checkpoint.
async fn told(fault: impl Fn(Call) -> Fault + Send + 'static) -> (FakeStore, JobId, windlass_core::Error) {
    let store = FakeStore::new();
    store.plan(fault);
    let (sender, mut errors) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("job", move |ctx: Context| {
        let sender = sender.clone();
        async move {
            if let Err(error) = ctx.checkpoint(&1).await {
                let _ = sender.send(error);
            }
        }
    });
    let job = store.add("q", "job", 1)[0];
    let engine = start(&store, 1, handlers).await;
    let error = errors.recv().await.unwrap();
    store.come_back();
    store.until("completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    (store, job, error)
}

#[tokio::test(start_paused = true)]
async fn who_lost_the_job_is_told() {
    let taken = Mutex::new(false);
    let (store, job, error) = told(move |call| {
        let first = call == Call::Report && !std::mem::replace(&mut *taken.lock().unwrap(), true);
        if first { Fault::TakeLease } else { Fault::None }
    })
    .await;
    assert!(error.is_lease_lost(), "{error}");
    // Run again under another registration, whose checkpoint is kept.
    assert_eq!(said(&store, job).checkpoint.unwrap().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_reports_costs_the_checkpoint_and_nothing_else() {
    let (store, job, error) = told(|call| match call {
        Call::Report => Fault::Fail(ErrorKind::SchemaTooOld),
        _ => Fault::None,
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::SchemaTooOld);
    let seen = store.model().job(job);
    assert_eq!((seen.state, seen.attempt, seen.report.is_none()), (JobState::Completed, 1, true));
}

#[tokio::test(start_paused = true)]
async fn an_outage_holds_up_no_shutdown_for_the_sake_of_a_line() {
    let store = FakeStore::new();
    let (sender, mut begun) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("job", move |ctx: Context| {
        let sender = sender.clone();
        async move {
            ctx.log("said in an outage");
            sender.send(()).unwrap();
        }
    });
    store.plan(|call| match call {
        Call::Report => Fault::Fail(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    store.add("q", "job", 1);
    let engine = start(&store, 1, handlers).await;
    begun.recv().await.unwrap();
    let began = Instant::now();
    engine.shutdown().await;
    assert!(began.elapsed() < 4 * SECOND, "after {:?}", began.elapsed());
    assert!(store.model().all_completed());
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_the_handlers_error() {
    let store = FakeStore::new();
    let (sender, mut errors) = mpsc::unbounded_channel();
    let handlers = Handlers::default().on("job", move |ctx: Context| {
        let sender = sender.clone();
        async move {
            let map = std::collections::HashMap::from([((1, 2), 3)]);
            let large = "x".repeat(300_000);
            ctx.checkpoint(&"a text").await?;
            let results = [
                ctx.progress(101.0),
                ctx.progress(f64::NAN),
                ctx.progress((1.0, "x".repeat(2_000))),
                ctx.checkpoint(&large).await,
                ctx.checkpoint(&map).await,
                ctx.last_checkpoint::<u32>().await.map(|_| ()),
            ];
            sender.send(results.map(|result| result.unwrap_err().to_string())).unwrap();
            Ok::<(), windlass_core::Error>(())
        }
    });
    let job = store.add("q", "job", 1)[0];
    let engine = start(&store, 1, handlers).await;
    let errors = errors.recv().await.unwrap();
    let says = [
        "got 101",
        "got NaN",
        "limit is 1024",
        "limit is 262144",
        "the checkpoint cannot be kept",
        "is no u32",
    ];
    for (error, says) in errors.iter().zip(says) {
        assert!(error.contains(says), "{error}");
    }
    store.until("completed", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(said(&store, job).checkpoint.unwrap().as_str(), "\"a text\"");
}
