//! The ways down: nothing is lost, nothing waits for a clock.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;
use windlass_core::{Disposition, ErrorKind, JobState};
use windlass_runtime::{WorkerConfig, WorkerEngine};

/// A handler that waits for a permit, and counts how many run.
fn gated(gate: &Arc<Semaphore>, running: &Arc<AtomicUsize>) -> Handlers {
    let (gate, running) = (Arc::clone(gate), Arc::clone(running));
    Handlers::default().on("gated", move |_| {
        let (gate, running) = (Arc::clone(&gate), Arc::clone(&running));
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
        }
    })
}

async fn until(reached: impl Fn() -> bool) {
    let wait = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_starts_and_stops_without_waiting_for_any_timer() {
    let store = FakeStore::new();
    let before = tokio::time::Instant::now();
    let engine =
        WorkerEngine::start(store.shared(), config(10), Arc::new(Handlers::default())).await.unwrap();
    engine.shutdown().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    let model = store.model();
    assert_eq!(model.deregistered, model.registered);
}

#[tokio::test]
async fn running_jobs_finish_and_unstarted_ones_are_returned_at_once() {
    let (store, gate, running) = (FakeStore::new(), Arc::new(Semaphore::new(0)), Arc::default());
    store.add("q", "gated", 2);
    let engine =
        WorkerEngine::start(store.shared(), config(2), Arc::new(gated(&gate, &running))).await.unwrap();
    until(|| running.load(Ordering::SeqCst) == 2).await;
    // Two more that are claimed but cannot start: free slots are none, so hand them out by a finished one.
    store.add("q", "gated", 3);
    gate.add_permits(1);
    until(|| running.load(Ordering::SeqCst) == 3).await;
    engine.stop();
    store.until("the unstarted are back", |model| model.count(JobState::Available) == 2).await;
    assert_eq!(store.model().held(), 2, "running jobs are still held");
    assert!(store.model().deregistered.is_empty());
    gate.add_permits(2);
    engine.wait().await;
    let model = store.model();
    assert_eq!((model.count(JobState::Completed), model.count(JobState::Available)), (3, 2));
    assert_eq!(model.deregistered, model.registered);
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_period_handlers_are_told_then_dropped_and_their_jobs_handed_back() {
    let store = FakeStore::new();
    let (told, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (on_told, on_drop) = (Arc::clone(&told), Arc::clone(&dropped));
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let handlers = Handlers::default()
        .on("stubborn", move |ctx| {
            let (told, dropped) = (Arc::clone(&on_told), SetOnDrop(Arc::clone(&on_drop)));
            async move {
                let _dropped = dropped;
                ctx.cancelled().await;
                told.store(true, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
        })
        .on("polite", |ctx| async move {
            ctx.cancelled().await;
            Err::<(), _>("interrupted")
        });
    let stubborn = store.add("q", "stubborn", 1)[0];
    let polite = store.add("q", "polite", 1)[0];
    let config = WorkerConfig { grace_period: Duration::from_secs(7), ..config(2) };
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
    while engine.stats().running < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = tokio::time::Instant::now();
    engine.shutdown().await;
    assert!((7..10).contains(&before.elapsed().as_secs()), "{:?}", before.elapsed());
    assert!(told.load(Ordering::SeqCst) && dropped.load(Ordering::SeqCst));
    for job in [stubborn, polite] {
        let job = store.model().job(job);
        assert_eq!((job.state, job.attempt), (JobState::Available, 0), "no attempt is used up: {job:?}");
        assert!(job.errors.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn abort_hands_back_running_jobs_now() {
    let (store, gate, running) = (FakeStore::new(), Arc::new(Semaphore::new(0)), Arc::default());
    store.add("q", "gated", 2);
    let engine =
        WorkerEngine::start(store.shared(), config(2), Arc::new(gated(&gate, &running))).await.unwrap();
    while running.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    engine.stop();
    let before = tokio::time::Instant::now();
    engine.abort_now();
    engine.wait().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(store.model().count(JobState::Available), 2);
}

#[tokio::test]
async fn a_claim_under_way_is_waited_for_and_its_jobs_handed_back() {
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let claims = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&claims);
    store.plan(move |call| match call {
        Call::Claim => {
            seen.fetch_add(1, Ordering::SeqCst);
            Fault::Gate(Arc::clone(&held))
        }
        _ => Fault::None,
    });
    let job = store.add("q", "any", 1)[0];
    let handlers = Handlers::default().on("any", |_| async { panic!("must not run") as () });
    let engine = WorkerEngine::start(store.shared(), config(1), Arc::new(handlers)).await.unwrap();
    until(|| claims.load(Ordering::SeqCst) == 1).await;
    engine.stop();
    tokio::task::yield_now().await;
    gate.add_permits(1);
    engine.wait().await;
    let mut model = store.model();
    let job = model.job(job);
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
    assert!(matches!(model.settles[0].exceptions[0].disposition, Disposition::Return));
}

#[tokio::test]
async fn dropping_the_handle_stops_the_worker() {
    let store = FakeStore::new();
    drop(WorkerEngine::start(store.shared(), config(1), Arc::new(Handlers::default())).await.unwrap());
    store.until("deregistered", |model| model.deregistered == model.registered).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_does_not_keep_the_worker_from_stopping() {
    let store = FakeStore::new();
    store.add("q", "noop", 10);
    let engine = WorkerEngine::start(
        store.shared(),
        config(1),
        Arc::new(Handlers::default().on("noop", |_| async {})),
    );
    let engine = engine.await.unwrap();
    store.go_down();
    engine.shutdown().await;
}

#[tokio::test]
async fn a_store_that_refuses_the_worker_fails_the_start() {
    let store = FakeStore::new();
    store.plan(|_| Fault::Fail(ErrorKind::SchemaMissing));
    let error =
        WorkerEngine::start(store.shared(), config(1), Arc::new(Handlers::default())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing);
}
