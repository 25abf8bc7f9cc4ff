//! How long the oldest job waits: since it could have started.

use crate::{Fixture, keys::story::*, steps::*};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use windlass_core::{Disposition, JobId, KeyLimit, Store};

/// Longer than the clock's tick, and soon over.
const SOON: Duration = Duration::from_millis(20);

async fn oldest(store: &Arc<dyn Store>) -> Option<Timestamp> {
    queue(store, QUEUE).await.oldest_available_at
}

/// Promotes until the job is available. Until when it waited.
async fn promoted(store: &Arc<dyn Store>, id: JobId) -> Timestamp {
    let due = record(store, id).await.scheduled_at.expect("it waits for its time");
    eventually("the job is due", || async {
        (store.promote(10).await.expect("promote").count > 0).then_some(())
    })
    .await;
    due
}

/// A job that was put off waits since its time came, not since its enqueue; one that is still put off does not wait.
pub async fn a_job_waits_since_its_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_delay(SOON)).await;
    assert_eq!(oldest(&store).await, None);
    let due = promoted(&store, id).await;
    assert_eq!(oldest(&store).await, Some(due));
    let next = enqueue(&store, job()).await;
    assert_eq!(oldest(&store).await, Some(due));
    let worker = worker_on(&store).await;
    worker.complete(&worker.take_one().await).await;
    assert_eq!(oldest(&store).await, Some(record(&store, next).await.enqueued_at));
}

/// What comes back waits since it did: after a failed attempt, given back, dead and retried.
pub async fn a_job_waits_since_it_came_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let id = enqueue(&store, job()).await;
    let enqueued_at = record(&store, id).await.enqueued_at;
    worker.except(&worker.take_one().await, Disposition::Retry { delay: SOON, error: "no".into() }).await;
    let due = promoted(&store, id).await;
    assert_eq!(oldest(&store).await, Some(due));
    worker.except(&worker.take_one().await, Disposition::Return).await;
    let again = oldest(&store).await.expect("it waits");
    assert!(again >= due && again <= store_now(&store).await, "given back: {again}, due at {due}");
    worker.except(&worker.take_one().await, Disposition::Discard { error: "no".into(), failed: true }).await;
    store.retry(&[id]).await.expect("retry");
    let again = oldest(&store).await.expect("it waits");
    assert!(again > enqueued_at, "retried: {again}, enqueued at {enqueued_at}");
}

/// The store's own time, by the enqueue of a job elsewhere.
async fn store_now(store: &Arc<dyn Store>) -> Timestamp {
    let id = enqueue(store, job().with_queue("elsewhere")).await;
    record(store, id).await.enqueued_at
}

/// A job whose key has no room waits since its time came, too.
pub async fn a_job_of_a_full_key_waits_since_its_time(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, KeyLimit::serial()).await;
    let worker = worker_on(&store).await;
    enqueue(&store, job_of("a")).await;
    let first = worker.take_one().await;
    let id = enqueue(&store, job_of("a").with_delay(SOON)).await;
    let due = promoted(&store, id).await;
    worker.waits().await;
    assert_eq!(oldest(&store).await, Some(due));
    worker.complete(&first).await;
}
