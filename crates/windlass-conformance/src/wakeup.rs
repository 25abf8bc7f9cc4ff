//! Wake-ups: hints only, so a rule can but ask that the protocol finds the work.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::Wake;

/// A wait without work ends by its timeout, armed or not, again and again.
pub async fn a_wait_ends(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut wakeup = store.wakeup();
    wakeup.wait(Duration::from_millis(1)).await;
    for _ in 0..3 {
        wakeup.arm().await;
        wakeup.wait(Duration::from_millis(1)).await;
        wakeup.disarm();
    }
}

/// An armed worker that claims once more before it waits finds every job, whoever enqueues it.
pub async fn the_protocol_finds_every_job(fixture: &dyn Fixture) {
    let (store, producer) = (fixture.open().await, fixture.open().await);
    let worker = worker_on(&store).await;
    let enqueuer = tokio::spawn(async move {
        for _ in 0..100 {
            enqueue(&producer, job()).await;
        }
    });
    let mut wakeup = store.wakeup();
    let mut found = 0;
    while found < 100 {
        wakeup.arm().await;
        let more = worker.drain(10).await.len();
        found += more;
        if more == 0 {
            let _: Wake = wakeup.wait(Duration::from_millis(20)).await;
        }
        wakeup.disarm();
    }
    enqueuer.await.expect("enqueuer");
    assert_eq!(found, 100);
}

/// A wait that was dropped half-way harms no later one.
pub async fn a_dropped_wait_harms_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut wakeup = store.wakeup();
    wakeup.arm().await;
    for _ in 0..10 {
        let _ = tokio::time::timeout(Duration::from_millis(1), wakeup.wait(DEADLINE)).await;
    }
    wakeup.wait(Duration::from_millis(1)).await;
    wakeup.disarm();
    drop(wakeup);
    store.close().await;
}
