//! Foreign code runs jobs in batches: the engine says which jobs make one, and when it begins.

use crate::{
    fake::{FakeStore, Handlers, config},
    lent::{Foreign, enqueue, until},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use windlass_core::{CancelReply, JobId, JobState, JobStore, Outcome};
use windlass_runtime::{
    EngineHandle, WorkerConfig, WorkerEngine,
    lend::{Lender, LentJob, News, StopReason},
};

const LIMIT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(5);

async fn start(
    store: &FakeStore,
    config: WorkerConfig,
    lender: &Lender,
    most: usize,
    wait: Duration,
) -> EngineHandle {
    let handlers = Handlers::default().lend_batch("lent", (most, wait), lender);
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

fn ids(jobs: &[LentJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.context.id()).collect()
}

/// The number of the one batch that these are.
fn batch(jobs: &[LentJob]) -> u64 {
    assert!(jobs.iter().all(|job| job.batch == jobs[0].batch), "{jobs:?}");
    jobs[0].batch.0
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_one_place_and_is_never_split() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 10);
    let engine = start(&store, config(2), &lender, 4, LIMIT).await;
    let foreign = Foreign::new(&lender);
    let (first, second) = (foreign.take_batch().await, foreign.take_batch().await);
    assert_eq!([ids(&first), ids(&second)].concat(), jobs[..8], "one after the other, whole");
    assert_ne!(batch(&first), batch(&second));
    sleep(10 * LIMIT).await;
    let stats = engine.stats();
    assert_eq!((lender.offered(), stats.running, stats.returned), (0, 8, 2), "both places are taken");
    foreign.complete(&first);
    let rest = foreign.take_batch().await;
    let mut waited = ids(&rest);
    waited.sort_unstable();
    assert_eq!(waited, jobs[8..], "they came back from the store, of two claims in either order");
    foreign.complete(&rest);
    foreign.complete(&second);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_waits_for_others() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let engine = start(&store, config(5), &lender, 3, LIMIT).await;
    let foreign = Foreign::new(&lender);
    let (began, first) = (Instant::now(), enqueue(&store, |job| job, 0));
    let alone = foreign.take_batch().await;
    assert_eq!((ids(&alone), began.elapsed().as_secs()), (vec![first], 60));
    foreign.complete(&alone);
    let jobs = [(); 3].map(|()| enqueue(&store, |job| job, 0));
    let (began, full) = (Instant::now(), foreign.take_batch().await);
    assert_eq!(ids(&full), jobs);
    assert!(began.elapsed() < LIMIT, "a full one waits no longer");
    foreign.complete(&full);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_job_of_a_batch_has_its_own_outcome_and_is_told_of_its_own_end() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 3);
    let engine = start(&store, config(1), &lender, 3, LIMIT).await;
    let foreign = Foreign::new(&lender);
    let lent = foreign.take_batch().await;
    assert_eq!(store.cancel(&jobs[..1]).await.unwrap(), [CancelReply::Running]);
    assert_eq!(foreign.news().await, [News::Interrupt(lent[0].ticket, StopReason::Cancelled)]);
    let failed = |error: &str| Outcome::Retry { after: None, error: error.into() };
    let done = vec![
        (lent[2].ticket, failed("no route")),
        (lent[1].ticket, Outcome::complete_with(&7)),
        (lent[0].ticket, failed("stopped")),
    ];
    assert_eq!(foreign.exchange(done, 0).1.refused, 0);
    for (job, state) in jobs.iter().zip([JobState::Cancelled, JobState::Completed, JobState::Retryable]) {
        until(&store, *job, state).await;
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn its_time_counts_from_when_it_is_lent_also_when_its_first_job_is_not() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let first = enqueue(&store, |job| job, 0);
    let other = enqueue(&store, |job| job.with_timeout(LIMIT), 0);
    let engine = start(&store, config(1), &lender, 2, LIMIT).await;
    let foreign = Foreign::new(&lender);
    while lender.offered() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(10 * LIMIT).await;
    assert_eq!(lender.offered(), 2, "nobody was there, and no time is over");
    store.cancel(&[first]).await.unwrap();
    while lender.offered() > 1 {
        sleep(Duration::from_millis(1)).await;
    }
    let (lent, at) = (foreign.take_batch().await, Instant::now());
    assert_eq!(ids(&lent), [other]);
    assert_eq!(foreign.news().await, [News::Interrupt(lent[0].ticket, StopReason::TimedOut)]);
    assert!(at.elapsed() <= LIMIT + Duration::from_secs(1), "{:?}", at.elapsed());
    assert_eq!(foreign.news().await, [News::Evicted(lent[0].ticket)]);
    assert!(at.elapsed() <= LIMIT + GRACE + Duration::from_secs(1), "{:?}", at.elapsed());
    until(&store, other, JobState::Retryable).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_dies_fails_the_batch_and_a_stop_gives_back_what_nobody_took() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let jobs = store.add("q", "lent", 4);
    let engine = start(&store, config(2), &lender, 2, LIMIT).await;
    lender.serve(&engine);
    let dies = Foreign::new(&lender);
    let lent = dies.take_batch().await;
    while lender.offered() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    drop(dies);
    engine.shutdown().await;
    for job in &jobs[..2] {
        until(&store, *job, JobState::Retryable).await;
    }
    for job in &jobs[2..] {
        until(&store, *job, JobState::Available).await;
        assert!(store.model().errors(*job).is_empty());
    }
    assert_eq!(lent.len(), 2);
}
