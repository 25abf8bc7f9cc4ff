//! An attempt that takes longer than its timeout is told to stop, then dropped, and fails.

use crate::fake::{FakeStore, Handlers, config};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use windlass_core::{Args, JobId, JobState, NewJob, Outcome};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const LIMIT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(5);

async fn start(store: &FakeStore, config: WorkerConfig, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

/// Waits, on the paused clock, until a job is neither available nor held.
async fn settled(store: &FakeStore, job: JobId) {
    let began = Instant::now();
    while matches!(store.model().job(job).state, JobState::Available | JobState::Running) {
        assert!(began.elapsed() < 100 * LIMIT, "job {job} goes on for ever");
        sleep(Duration::from_millis(100)).await;
    }
}

/// What comes next, before the paused clock is far ahead.
async fn next<T>(receiver: &mut mpsc::UnboundedReceiver<T>) -> T {
    timeout(100 * LIMIT, receiver.recv()).await.expect("nothing comes").expect("the handlers live")
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_and_what_it_says_then_counts() {
    let store = FakeStore::new();
    let (sender, mut told) = mpsc::unbounded_channel();
    let started = Instant::now();
    let handler = move |says: fn() -> Outcome| {
        let sender = sender.clone();
        move |ctx: Context| {
            let sender = sender.clone();
            async move {
                ctx.cancelled().await;
                assert!(ctx.is_cancelled() && sender.send(started.elapsed()).is_ok());
                says()
            }
        }
    };
    let minute = Duration::from_secs(60);
    let failing = || Outcome::Retry { after: Some(Duration::from_secs(60)), error: "half done".into() };
    let handlers = Handlers::default()
        .with_timeout("fails", LIMIT, handler(failing))
        .with_timeout("panics", LIMIT, handler(|| panic!("when told")))
        .with_timeout("completes", LIMIT, handler(|| Outcome::Complete(None)))
        .with_timeout("discards", LIMIT, handler(|| Outcome::Discard("too large".into())));
    let kinds = ["fails", "panics", "completes", "discards"];
    let jobs = kinds.map(|kind| store.add("q", kind, 1)[0]);
    let engine = start(&store, config(4), handlers).await;
    for job in jobs {
        settled(&store, job).await;
    }
    for _ in jobs {
        assert_eq!(next(&mut told).await.as_secs(), LIMIT.as_secs());
    }
    let errors = |job: JobId| store.model().errors(job);
    assert_eq!(errors(jobs[0]), ["timeout after 60s: half done"]);
    assert_eq!(errors(jobs[1]), ["timeout after 60s: handler panicked: when told"]);
    engine.shutdown().await;
    let mut model = store.model();
    assert_eq!(model.job(jobs[2]).state, JobState::Completed);
    assert_eq!(model.job(jobs[3]).state, JobState::Discarded);
    assert_eq!(model.errors(jobs[3]), Vec::<String>::new(), "no attempt failed");
    let exceptions = model.settles.iter().flat_map(|settle| &settle.exceptions);
    let delays = exceptions.filter_map(|exception| match exception.disposition {
        windlass_core::Disposition::Retry { delay, .. } if exception.job == jobs[0] => Some(delay),
        _ => None,
    });
    assert_eq!(delays.collect::<Vec<_>>(), [minute], "the delay that the handler asked for");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_listen_is_dropped_after_the_grace_and_its_slot_is_free() {
    struct TellOnDrop(mpsc::UnboundedSender<Duration>, Instant);
    impl Drop for TellOnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(self.1.elapsed());
        }
    }
    let store = FakeStore::new();
    let (sender, mut dropped) = mpsc::unbounded_channel();
    let handlers = Handlers::default()
        .with_timeout("hangs", LIMIT, move |_| {
            let guard = TellOnDrop(sender.clone(), Instant::now());
            async move {
                pending::<()>().await;
                drop(guard);
            }
        })
        .on("quick", |_| async {});
    let hanging = store.add("q", "hangs", 1)[0];
    let engine = start(&store, config(1), handlers).await;
    assert_eq!(next(&mut dropped).await.as_secs(), (LIMIT + GRACE).as_secs());
    settled(&store, hanging).await;
    let errors = store.model().errors(hanging);
    assert_eq!(errors, ["timeout after 60s: the handler went on for 5s more and was dropped"]);
    let quick = store.add("q", "quick", 1)[0];
    settled(&store, quick).await;
    assert_eq!(store.model().job(quick).state, JobState::Completed);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_workers_timeout_is_for_kinds_without_one() {
    let store = FakeStore::new();
    let wait = |seconds| move |_: Context| sleep(Duration::from_secs(seconds));
    let handlers = Handlers::default()
        .on("silent", wait(3_600))
        .with_timeout("longer", Duration::from_secs(7_200), wait(3_600))
        .with_timeout("for_ever", Duration::MAX, wait(3_600));
    let jobs = ["silent", "longer", "for_ever"].map(|kind| store.add("q", kind, 1)[0]);
    let config = WorkerConfig { timeout: Some(LIMIT), timeout_grace: Duration::from_secs(1), ..config(3) };
    let engine = start(&store, config, handlers).await;
    for job in jobs {
        settled(&store, job).await;
    }
    engine.shutdown().await;
    let mut model = store.model();
    let errors = model.errors(jobs[0]);
    assert_eq!(errors[0], "timeout after 60s: the handler went on for 1s more and was dropped");
    assert_eq!(model.job(jobs[1]).state, JobState::Completed);
    assert_eq!(model.job(jobs[2]).state, JobState::Completed);
}

#[tokio::test(start_paused = true)]
async fn one_jobs_timeout_is_not_another_jobs_and_a_shutdown_reaches_both() {
    let store = FakeStore::new();
    let (sender, mut told) = mpsc::unbounded_channel();
    let listen = move |ctx: Context| {
        let sender = sender.clone();
        async move {
            ctx.cancelled().await;
            let _ = sender.send(ctx.kind().to_owned());
            match ctx.kind() {
                "short" => Outcome::Discard("once is enough".into()),
                _ => Outcome::Retry { after: None, error: "told to stop".into() },
            }
        }
    };
    let handlers = Handlers::default()
        .with_timeout("short", LIMIT, listen.clone())
        .with_timeout("long", 100 * LIMIT, listen.clone())
        .on("unlimited", listen);
    let jobs = ["short", "long", "unlimited"].map(|kind| store.add("q", kind, 1)[0]);
    let engine = start(&store, WorkerConfig { grace_period: LIMIT, ..config(3) }, handlers).await;
    assert_eq!(next(&mut told).await, "short");
    sleep(LIMIT).await;
    assert!(told.try_recv().is_err(), "the others go on");
    engine.shutdown().await;
    let mut rest = [next(&mut told).await, next(&mut told).await];
    rest.sort();
    assert_eq!(rest, ["long", "unlimited"]);
    for job in &jobs[1..] {
        assert_eq!(store.model().errors(*job), Vec::<String>::new(), "handed back, not failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_jobs_own_timeout_goes_before_its_kinds() {
    let store = FakeStore::new();
    let handlers =
        Handlers::default()
            .on("unlimited", |_| pending::<()>())
            .with_timeout("limited", LIMIT, |_| sleep(2 * LIMIT));
    let job = |kind: &'static str, timeout| {
        NewJob::new(kind, Args::parse("{}").unwrap())
            .with_queue("q")
            .with_max_attempts(1)
            .with_timeout(timeout)
    };
    let jobs = [job("unlimited", LIMIT), job("limited", 10 * LIMIT)];
    let jobs = store.model().enqueue(&jobs, 0).unwrap();
    let engine = start(&store, config(2), handlers).await;
    for job in &jobs {
        settled(&store, *job).await;
    }
    engine.shutdown().await;
    let mut model = store.model();
    let errors = model.errors(jobs[0]);
    assert_eq!(errors, ["timeout after 60s: the handler went on for 5s more and was dropped"]);
    assert_eq!(model.job(jobs[1]).state, JobState::Completed);
}
