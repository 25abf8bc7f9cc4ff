//! A worker is asked to drain: to take no more jobs, end what it runs, and go.

use crate::{Fixture, steps::*};
use std::sync::Arc;
use tokio::sync::Notify;
use windlass_core::{ErrorKind, Store, WorkerId};

async fn drains(store: &Arc<dyn Store>, worker: WorkerId) -> bool {
    store.heartbeat(worker).await.expect("heartbeat").drain
}

/// Its heartbeats say so from then on, those of others do not; and the status.
pub async fn a_heartbeat_tells_to_drain(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (worker, other) = (worker_on(&store).await, worker_on(&store).await);
    assert!(!drains(&store, worker.id).await);
    fixture.open().await.drain_worker(worker.id).await.expect("drain");
    store.drain_worker(worker.id).await.expect("again");
    assert!(drains(&store, worker.id).await && drains(&store, worker.id).await);
    assert!(!drains(&store, other.id).await);
    let status = store.status().await.expect("status");
    let state = |id| status.workers.iter().find(|worker| worker.id == id).map(|worker| worker.state());
    assert_eq!((state(worker.id), state(other.id)), (Some("draining"), Some("live")));
    store.deregister(worker.id).await.expect("deregister");
    let status = store.status().await.expect("status");
    let gone = status.workers.iter().find(|listed| listed.id == worker.id).expect("listed");
    assert_eq!(gone.state(), "gone");
}

/// What it holds it may settle, and its lease goes on.
pub async fn what_a_draining_worker_holds_is_its_own(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let id = enqueue(&store, job()).await;
    let held = worker.take_one().await;
    store.drain_worker(worker.id).await.expect("drain");
    worker.complete(&held).await;
    assert_eq!(record(&store, id).await.state, windlass_core::JobState::Completed);
}

/// Who does not live, or takes no jobs, cannot drain.
pub async fn nobody_else_drains(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (left, keeper) = (worker_on(&store).await.id, worker(&store, &[], &[], LEASE).await.id);
    store.deregister(left).await.expect("deregister");
    for worker in [left, keeper, WorkerId(i32::MAX)] {
        let refused = store.drain_worker(worker).await.expect_err("nobody");
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        assert!(refused.to_string().contains(&worker.to_string()), "{refused}");
    }
    assert!(!drains(&store, keeper).await);
}

/// A worker that waits is told at once that its heartbeat has something to say.
pub async fn a_drain_wakes_the_heartbeat(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await.id;
    let (mut wakeup, told) = (store.wakeup(), Arc::new(Notify::new()));
    let tells = Arc::clone(&told);
    wakeup.on_request(Arc::new(move |of| {
        if of.is_none_or(|of| of == worker) {
            tells.notify_one();
        }
    }));
    wakeup.arm().await;
    store.drain_worker(worker).await.expect("drain");
    tokio::time::timeout(DEADLINE, told.notified()).await.expect("it is told");
    assert!(drains(&store, worker).await);
}
