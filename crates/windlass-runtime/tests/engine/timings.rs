//! What a worker measures of its jobs reaches the store, and harms no job where it does not.

use crate::{
    fake::{FakeStore, Handlers, config},
    lent::Foreign,
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use windlass_core::{JobId, Outcome, Quantiles, TimingRequest, TimingStore};
use windlass_runtime::{EngineHandle, WorkerEngine};

const SECOND: Duration = Duration::from_secs(1);

async fn start(store: &FakeStore, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config(4), Arc::new(handlers)).await.unwrap()
}

/// What the store was told of a kind: of waiting and of running.
async fn told(store: &FakeStore, kind: &str) -> Option<(Quantiles, Quantiles)> {
    let mut request = TimingRequest::last(Duration::from_secs(86_400));
    (request.step, request.kind) = (Duration::from_secs(86_400), Some(kind.to_owned()));
    let timings = store.timings(&request).await.unwrap();
    assert!(timings.timed.len() < 2, "{timings:?}");
    let timed = timings.timed.first()?;
    assert_eq!(timed.queue.as_deref(), Some("q"));
    Some((timed.wait.summary(), timed.run.summary()))
}

fn takes(of: Quantiles, count: u64, ms: std::ops::RangeInclusive<f64>) {
    assert_eq!(of.count, count, "{of:?}");
    assert!(of.p50_ms.is_some_and(|p50| ms.contains(&p50)), "{of:?}");
}

#[tokio::test(start_paused = true)]
async fn the_store_is_told_every_ten_seconds_and_at_the_end() {
    let store = FakeStore::new();
    store.add("q", "slow", 4);
    let engine = start(&store, Handlers::default().on("slow", |_| sleep(2 * SECOND))).await;
    store.until("all settled", |model| model.settled == 4).await;
    assert_eq!(told(&store, "slow").await, None);
    sleep(10 * SECOND).await;
    let (wait, run) = told(&store, "slow").await.unwrap();
    takes(run, 4, 1_750.0..=2_250.0);
    assert_eq!(wait.count, 4, "it was never put off: {wait:?}");
    store.add("q", "slow", 1);
    store.until("settled", |model| model.settled == 5).await;
    engine.shutdown().await;
    assert_eq!(told(&store, "slow").await.unwrap().1.count, 5);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_by_cause_and_retries_do_not_wait() {
    let store = FakeStore::new();
    let fail = |ctx: windlass_runtime::Context| async move {
        Err::<(), _>(format!("no answer in attempt {}\nmore", ctx.attempt()))
    };
    let job = store.add("q", "fail", 1)[0];
    let panics = |ctx: windlass_runtime::Context| async move { assert!(ctx.is_cancelled(), "ouch") };
    let engine = start(&store, Handlers::default().on("fail", fail).on("panics", panics)).await;
    let other = store.add("q", "panics", 1)[0];
    store.until("both died", |model| [job, other].iter().all(|job| model.job(*job).state.is_final())).await;
    engine.shutdown().await;
    let failures = store.failures(&TimingRequest::last(86_400 * SECOND)).await.unwrap();
    let shown = |of: &str| {
        let group = failures.iter().find(|group| group.kind.as_deref() == Some(of)).unwrap();
        (group.count, group.last_job, group.sample.clone())
    };
    assert_eq!(shown("fail"), (3, job, "no answer in attempt 3".to_owned()));
    assert_eq!((shown("panics").0, shown("panics").1), (3, other));
    assert!(shown("panics").2.contains("ouch"));
    let (wait, run) = told(&store, "fail").await.unwrap();
    assert_eq!((wait.count, run.count), (1, 3), "only the first attempt waited");
}

#[tokio::test(start_paused = true)]
async fn each_job_of_a_batch_has_the_time_of_the_whole() {
    let store = FakeStore::new();
    store.add("q", "row", 3);
    let handlers = Handlers::default().on_batch("row", (3, SECOND), None, |jobs| async move {
        sleep(4 * SECOND).await;
        vec![Outcome::Complete(None); jobs.len()]
    });
    let engine = start(&store, handlers).await;
    store.until("all settled", |model| model.settled == 3).await;
    engine.shutdown().await;
    takes(told(&store, "row").await.unwrap().1, 3, 3_500.0..=4_500.0);
}

#[tokio::test]
async fn of_many_some_count_for_the_others() {
    let store = FakeStore::new();
    store.add("q", "noop", 800);
    let engine = start(&store, Handlers::default().on("noop", |_| async {})).await;
    store.until("all settled", |model| model.settled == 800).await;
    engine.shutdown().await;
    let count = told(&store, "noop").await.unwrap().1.count;
    assert!((700..=900).contains(&count), "{count}");
}

/// Lent jobs run from when somebody takes them, and wait until then.
#[tokio::test(start_paused = true)]
async fn a_lent_job_runs_from_when_it_is_taken() {
    let store = FakeStore::new();
    let lender = windlass_runtime::lend::Lender::new();
    store.add("q", "lent", 2);
    let engine = start(&store, Handlers::default().lend("lent", &lender)).await;
    let foreign = Foreign::new(&lender);
    sleep(4 * SECOND).await;
    let jobs = foreign.take(2).await;
    let ids: Vec<JobId> = jobs.iter().map(|job| job.context.id()).collect();
    assert_eq!(ids.len(), 2);
    sleep(SECOND).await;
    foreign.complete(&jobs);
    store.until("all settled", |model| model.settled == 2).await;
    engine.shutdown().await;
    let (wait, run) = told(&store, "lent").await.unwrap();
    takes(run, 2, 875.0..=1_125.0);
    takes(wait, 2, 3_500.0..=4_600.0);
}
