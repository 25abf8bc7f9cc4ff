//! Jobs that were held by dying workers run one at a time, and the store knows which.

use crate::{
    fake::{Call, FakeStore, Fault, Handlers, config},
    lent::until,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{CancelReply, ErrorKind, JobId, JobState, JobStore, WorkerId};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn suspects_run_alone_and_are_announced() {
    let store = FakeStore::new();
    let suspects = store.add("q", "suspect", 5);
    store.add("q", "plain", 20);
    for id in &suspects {
        store.model().set_crash_count(*id, 2);
    }
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, peak) = (store.clone(), Arc::clone(&most));
    let handlers = Handlers::default().on("plain", |_| async {}).on("suspect", move |ctx| {
        let (running, peak, seen) = (Arc::clone(&running), Arc::clone(&peak), seen.clone());
        async move {
            assert_eq!(seen.model().suspect(), Some(ctx.id()));
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let engine = WorkerEngine::start(store.shared(), config(10), Arc::new(handlers)).await.unwrap();
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
    let announced = store.model().suspects.clone();
    assert_eq!(announced.iter().filter(|suspect| suspect.is_some()).count(), 5);
    assert!(announced.chunks(2).all(|pair| pair[0].is_some() && pair[1].is_none()), "{announced:?}");
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_cannot_be_announced_is_returned_unrun() {
    let store = FakeStore::new();
    let job = store.add("q", "suspect", 1)[0];
    store.model().set_crash_count(job, 2);
    store.plan(|call| match call {
        Call::Suspect => Fault::Fail(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let handlers = Handlers::default().on("suspect", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let engine = WorkerEngine::start(store.shared(), config(1), Arc::new(handlers)).await.unwrap();
    while store.model().returns(job) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    store.come_back();
    while store.model().job(job).state != JobState::Completed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.shutdown().await;
    assert_eq!(store.model().job(job).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_whose_lease_is_lost_while_it_is_announced_does_not_start() {
    let store = FakeStore::new();
    let job = store.add("q", "suspect", 1)[0];
    store.model().set_crash_count(job, 2);
    let mut slow = true;
    store.plan(move |call| match call {
        Call::Suspect if std::mem::take(&mut slow) => {
            Fault::Late { before: Duration::ZERO, happens: true, after: Duration::from_secs(1), error: None }
        }
        _ => Fault::None,
    });
    let ran_under = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&ran_under);
    let handlers = Handlers::default().on("suspect", move |ctx| {
        seen.lock().unwrap().push(ctx.lease().worker);
        async {}
    });
    let config = WorkerConfig { lease: Duration::from_millis(300), ..config(1) };
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
    while store.model().suspect().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.model().end_lease(WorkerId(1));
    while store.model().job(job).state != JobState::Completed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(*ran_under.lock().unwrap(), [WorkerId(2)], "only under the new lease");
    engine.shutdown().await;
}

/// A worker that runs the first of two suspects, which takes an hour, while the second waits for it.
async fn one_waits(store: &FakeStore) -> (EngineHandle, [JobId; 2], Arc<AtomicUsize>) {
    let jobs: [JobId; 2] = store.add("q", "suspect", 2).try_into().unwrap();
    jobs.iter().for_each(|job| store.model().set_crash_count(*job, 2));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let handlers = Handlers::default().on("suspect", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        sleep(HOUR)
    });
    let engine = WorkerEngine::start(store.shared(), config(2), Arc::new(handlers)).await.unwrap();
    store.until("the first runs, the second waits", |model| model.suspect() == Some(jobs[0])).await;
    store.until("both are held", |model| model.held() == 2).await;
    while engine.stats().running < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    (engine, jobs, runs)
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_is_cancelled_while_it_waits_is_cancelled_at_once_and_never_starts() {
    let store = FakeStore::new();
    let (engine, [first, second], runs) = one_waits(&store).await;
    let began = Instant::now();
    assert_eq!(store.cancel(&[second]).await.unwrap(), [CancelReply::Running]);
    until(&store, second, JobState::Cancelled).await;
    assert!(began.elapsed() < WorkerConfig::DEFAULT_LEASE, "by the next heartbeat");
    until(&store, first, JobState::Completed).await;
    engine.shutdown().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(store.model().job(second).reason.as_deref(), Some("cancelled by request"));
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_waits_goes_back_when_its_worker_is_to_drain() {
    let store = FakeStore::new();
    let (engine, [first, second], runs) = one_waits(&store).await;
    store.drain_worker(WorkerId(1)).await.unwrap();
    until(&store, second, JobState::Available).await;
    assert_eq!(store.model().job(first).state, JobState::Running);
    engine.wait().await;
    assert_eq!((runs.load(Ordering::SeqCst), store.model().job(first).state), (1, JobState::Completed));
    assert_eq!(store.model().job(second).attempt, 0);
}

/// A crash of the database forgot the claim of a suspect that waits: it is everybody's again, and does not start under that claim.
#[tokio::test(start_paused = true)]
async fn a_suspect_that_waits_does_not_start_under_a_claim_that_the_store_forgot() {
    let store = FakeStore::new();
    let (runs, quick) = (store.add("q", "suspect", 1)[0], store.add("other", "quick", 1)[0]);
    let waits = store.add("other", "suspect", 1)[0];
    [runs, waits].iter().for_each(|job| store.model().set_crash_count(*job, 2));
    let under = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&under);
    let suspect = move |ctx: Context| {
        seen.lock().unwrap().push((ctx.id(), ctx.lease().worker));
        sleep(HOUR)
    };
    let handlers = Handlers::default().on("quick", |_| sleep(MINUTE)).on("suspect", suspect);
    let config = config(1).with_queue("other", 2);
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
    store.until("all are held", |model| model.held() == 3).await;
    sleep(MINUTE / 2).await;
    store.model().forget_claim_of(quick);
    until(&store, waits, JobState::Completed).await;
    engine.shutdown().await;
    let [first, second] = [1, 2].map(WorkerId);
    assert_eq!(*under.lock().unwrap(), [(runs, first), (waits, second)]);
}
