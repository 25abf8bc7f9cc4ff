//! What a handler says decides what becomes of its job.

use crate::fake::{FakeStore, Handlers, RetryDelay, config};
use std::{sync::Arc, time::Duration};
use windlass_core::{Args, Disposition, JobId, JobState, NewJob, Outcome, RetryPolicy};
use windlass_runtime::{Context, EngineHandle, WorkerEngine};

async fn start(store: &FakeStore, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config(4), Arc::new(handlers)).await.unwrap()
}

fn at_once() -> Option<RetryPolicy> {
    Some(RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() })
}

/// The dispositions that a job was settled with.
fn fates(store: &FakeStore, job: JobId) -> Vec<Disposition> {
    let model = store.model();
    let exceptions = model.settles.iter().flat_map(|settle| &settle.exceptions);
    exceptions
        .filter(|exception| exception.job == job)
        .map(|exception| exception.disposition.clone())
        .collect()
}

#[tokio::test]
async fn every_outcome_reaches_the_store() {
    let store = FakeStore::new();
    let minute = Duration::from_secs(60);
    let handlers = Handlers::default()
        .on("complete", |_| async {})
        .on("fail", |_| async { Err::<(), _>("no route") })
        .on(
            "fail_after",
            move |_| async move { Outcome::Retry { after: Some(minute), error: "later".into() } },
        )
        .on("snooze", move |_| async move { Outcome::Snooze(minute) })
        .on("cancel", |_| async { Outcome::Cancel("unwanted".into()) })
        .on("discard", |_| async { Outcome::Discard("hopeless".into()) });
    let kinds = ["complete", "fail", "fail_after", "snooze", "cancel", "discard", "unheard_of"];
    let ids: Vec<JobId> = kinds.iter().map(|kind| store.add("q", kind, 1)[0]).collect();
    let engine = start(&store, handlers).await;
    store.until("all settled", |model| model.settled == kinds.len()).await;
    engine.shutdown().await;

    assert_eq!(store.model().job(ids[0]).state, JobState::Completed);
    let [Disposition::Retry { delay, error }] = &fates(&store, ids[1])[..] else { panic!("{ids:?}") };
    assert!((13.5..=16.5).contains(&delay.as_secs_f64()) && error == "no route", "{delay:?} {error}");
    assert_eq!(fates(&store, ids[2]), [Disposition::Retry { delay: minute, error: "later".into() }]);
    assert_eq!(fates(&store, ids[3]), [Disposition::Snooze { delay: minute }]);
    assert_eq!(fates(&store, ids[4]), [Disposition::Cancel { reason: "unwanted".into() }]);
    assert_eq!(fates(&store, ids[5]), [Disposition::Discard { error: "hopeless".into(), failed: false }]);
    assert_eq!(fates(&store, ids[6]), [Disposition::NoHandler]);
    let stats = engine.stats();
    assert_eq!((stats.claimed, stats.completed, stats.retried, stats.snoozed), (7, 1, 2, 1));
    assert_eq!((stats.cancelled, stats.discarded, stats.no_handler, stats.settled), (1, 1, 1, 7));
}

#[tokio::test]
async fn a_job_that_keeps_failing_is_tried_max_attempts_times_and_dies() {
    let store = FakeStore::new();
    let fail =
        |ctx: windlass_runtime::Context| async move { Err::<(), _>(format!("attempt {}", ctx.attempt())) };
    let job = store.add("q", "fail", 1)[0];
    let engine = start(&store, Handlers::default().with_policy("fail", at_once(), fail)).await;
    store.until("dead", |model| model.job(job).state == JobState::Discarded).await;
    assert_eq!(store.model().errors(job), ["attempt 1", "attempt 2", "attempt 3"]);
    engine.shutdown().await;
}

fn fail(words: &str) {
    panic!("{words}");
}

#[tokio::test]
async fn a_panic_is_an_error_wherever_it_happens_and_the_worker_goes_on() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "in the drop");
        }
    }
    let store = FakeStore::new();
    let handlers = Handlers::default()
        .on("sync", |ctx| {
            assert_eq!(ctx.attempt(), 0, "before the future");
            async {}
        })
        .on("first_poll", |_| async { fail("at once") })
        .on("later", |_| async {
            tokio::task::yield_now().await;
            fail("after an await");
        })
        .on("drop", |_| {
            let bomb = PanicsOnDrop;
            let mut bomb = Some(bomb);
            std::future::poll_fn(move |_| {
                let _ = bomb.as_mut();
                std::task::Poll::Ready(())
            })
        })
        .on("fine", |_| async {});
    let ids: Vec<_> = ["sync", "first_poll", "later", "drop", "fine"]
        .iter()
        .map(|kind| store.add("q", kind, 1)[0])
        .collect();
    let engine = start(&store, handlers).await;
    store.until("all settled", |model| model.settled == ids.len()).await;
    engine.shutdown().await;
    for (id, words) in ids.iter().zip(["before the future", "at once", "after an await", "in the drop"]) {
        let errors = store.model().errors(*id);
        assert!(errors.len() == 1 && errors[0].contains(words), "{words}: {errors:?}");
        assert!(errors[0].starts_with("handler panicked: "), "{errors:?}");
    }
    assert_eq!(store.model().job(ids[4]).state, JobState::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_snoozed_job_runs_again_without_using_up_an_attempt() {
    let store = FakeStore::new();
    let naps = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let handlers =
        Handlers::default().on("nap", move |ctx| {
            let naps = naps.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(ctx.attempt(), 1);
            async move {
                if naps < 5 { Outcome::Snooze(Duration::from_secs(3600)) } else { Outcome::Complete(None) }
            }
        });
    let job = store.add("q", "nap", 1)[0];
    let engine = start(&store, handlers).await;
    // The deadline of `until` is on the paused clock too: wait by settlements.
    while store.model().job(job).state != JobState::Completed {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(fates(&store, job).len(), 5);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_jobs_own_retry_policy_goes_before_its_kinds_function_and_that_before_its_kinds_policy() {
    let (seconds, store) = (Duration::from_secs, FakeStore::new());
    let function: RetryDelay = |attempt, error| match error {
        "panic" => panic!("in the function"),
        "policy" => None,
        _ => Some(Duration::from_secs(100 + u64::from(attempt))),
    };
    let kinds = RetryPolicy::fixed(seconds(7));
    let fail = |ctx: Context| async move { Err::<(), _>(ctx.key().unwrap_or("function").to_owned()) };
    let asks = |_| async { Outcome::Retry { after: Some(Duration::from_secs(1)), error: "asks".into() } };
    let handlers = Handlers::default()
        .with_delay("fails", kinds, function, fail)
        .with_delay("asks", kinds, function, asks);
    let job = |kind: &'static str| NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("q");
    let own = RetryPolicy { jitter: 0.0, ..RetryPolicy::linear(seconds(30)) };
    let jobs = [
        (job("fails"), seconds(101)),
        (job("fails").with_key("policy"), seconds(7)),
        (job("fails").with_key("panic"), seconds(7)),
        (job("fails").with_retry_policy(own), seconds(30)),
        (job("asks").with_retry_policy(own), seconds(1)),
    ];
    let (jobs, expected): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
    let ids = store.model().enqueue(&jobs, 0).unwrap();
    let engine = start(&store, handlers).await;
    store.until("all settled", |model| model.settled == ids.len()).await;
    engine.shutdown().await;
    let delays = ids.iter().map(|id| match &fates(&store, *id)[..] {
        [Disposition::Retry { delay, .. }] => *delay,
        other => panic!("{other:?}"),
    });
    assert_eq!(delays.collect::<Vec<_>>(), expected);
}
