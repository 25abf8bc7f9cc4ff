//! Jobs that were held by dying workers run one at a time, and the store knows which.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass_core::{ErrorKind, JobState, WorkerId};
use windlass_runtime::{WorkerConfig, WorkerEngine};

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
