//! What is available to a worker, and what will be.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{Coming, Disposition, Settled};

/// Whether a worker would find a job, now or when what is due is promoted: not of a paused queue, of no other queue, none that waits
/// for its time or for another worker's handlers.
pub async fn any_available_asks_for_a_worker(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let any = async |queue: &str, kinds: &[&str]| {
        let kinds: Vec<_> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        store.any_available(&["none".to_owned(), queue.to_owned()], &kinds).await.expect("asks")
    };
    assert!(!any(QUEUE, &[]).await);
    enqueue(&store, job().with_delay(LATER)).await;
    assert!(!any(QUEUE, &[]).await);
    let id = enqueue(&store, job()).await;
    assert!(any(QUEUE, &[]).await && any(QUEUE, &["other"]).await && !any("b", &[]).await);
    store.pause(QUEUE, true).await.expect("pause");
    assert!(!any(QUEUE, &[]).await);
    store.pause(QUEUE, false).await.expect("resume");
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    assert!(!any(QUEUE, &[]).await);
    worker.except(&held, Disposition::NoHandler).await;
    assert!(any(QUEUE, &[]).await && any(QUEUE, &["x", KIND]).await && !any(QUEUE, &["other"]).await);
    store.cancel(&[id]).await.expect("cancel");
    assert!(!any(QUEUE, &[]).await);
    let cancelled = enqueue(&store, job()).await;
    store.cancel(&[cancelled]).await.expect("cancel");
    assert!(!any(QUEUE, &[]).await);
    for due in [
        Disposition::Snooze { delay: Duration::ZERO },
        Disposition::Retry { delay: Duration::ZERO, error: "no".into() },
    ] {
        enqueue(&store, job()).await;
        worker.except(&worker.take_one().await, due).await;
        assert!(any(QUEUE, &[]).await && !any("b", &[]).await, "its time has come");
        store.pause(QUEUE, true).await.expect("pause");
        assert!(!any(QUEUE, &[]).await);
        store.pause(QUEUE, false).await.expect("resume");
        store.promote(1).await.expect("promote");
        worker.complete(&worker.take_one().await).await;
    }
    assert!(!any(QUEUE, &[]).await);
}

/// What a worker holds whose lease is over is coming, until it is settled or taken back: who waits until there is nothing more takes it back. Else workers
/// that each end before it may would leave it for ever. Until then nobody would be given it.
pub async fn what_dead_workers_hold_is_coming(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let held_of =
        async |queue: &str| store.coming(&["none".to_owned(), queue.to_owned()]).await.expect("asks").held;
    let any = async || store.any_available(&[QUEUE.to_owned()], &[]).await.expect("asks");
    assert_eq!(store.coming(&[QUEUE.to_owned()]).await.expect("asks"), Coming::default());
    enqueue_jobs(&store, 3).await;
    let live = worker_on(&store).await;
    live.take_one().await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = dying.take(2).await;
    eventually("the lease is over", || async { (held_of(QUEUE).await == 2).then_some(()) }).await;
    let coming = store.coming(&[QUEUE.to_owned()]).await.expect("asks");
    assert_eq!((coming.lease, coming.key_due), (TINY_LEASE, None));
    assert_eq!((held_of("b").await, any().await), (0, false));
    store.pause(QUEUE, true).await.expect("pause");
    assert_eq!(held_of(QUEUE).await, 0);
    store.pause(QUEUE, false).await.expect("resume");
    assert_eq!(dying.complete(&held[0]).await, Settled::Accepted);
    assert_eq!(held_of(QUEUE).await, 1);
    rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_eq!((held_of(QUEUE).await, any().await), (0, true), "it is available");
    live.take_one().await;
    assert!(!any().await);

    let idle = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    eventually("the lease is over", || async {
        let workers = store.status().await.expect("status").workers;
        workers.iter().all(|worker| worker.id != idle.id || !worker.live).then_some(())
    })
    .await;
    assert_eq!(held_of(QUEUE).await, 0, "it holds nothing");
}
