//! Expiry: with each claim the store says, by its own clock, how long a job may still wait to be started.

use crate::{Fixture, steps::*};
use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Disposition, NewJob};

/// Longer than any test, shorter than [`LATER`].
const LONG: Duration = Duration::from_secs(1_800);

/// What is left of [`LONG`], for jobs that were enqueued a moment ago.
fn assert_nearly_all_left(held: &Held) {
    let left = held.job.expires_in.expect("it expires");
    assert!(left <= LONG && left > LONG - DEADLINE, "{left:?} left");
}

/// A claim says how long each job may still wait, whatever way it was enqueued, also beside jobs that never expire.
pub async fn a_claim_says_how_long_is_left(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let expiring = || job().with_expiry(LONG);
    enqueue(&store, expiring()).await;
    let mut few = jobs(3);
    few[1] = expiring();
    store.enqueue(&few).await.expect("enqueue a few");
    let mut many = jobs(40);
    many[20] = job().with_expires_at(Timestamp::now() + LONG + DEADLINE).with_expiry(LONG);
    store.enqueue_once("key", &many).await.expect("enqueue once");
    store.enqueue(&many).await.expect("enqueue many");
    let held = worker_on(&store).await.take(84).await;
    let expire: Vec<_> = held.iter().filter(|held| held.job.expires_in.is_some()).collect();
    assert_eq!(expire.len(), 4, "nobody else does");
    for held in expire {
        assert_nearly_all_left(held);
        let record = record(&store, held.job.id).await;
        let lives = record.expires_at.expect("it expires").duration_since(record.enqueued_at);
        let lives = Duration::try_from(lives).expect("after its enqueue");
        assert!(lives >= LONG && lives < LONG + DEADLINE, "{lives:?}");
    }
}

/// Nothing is left of a time that is over, however long ago, whatever else is claimed with it.
pub async fn what_is_over_is_over(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let long_ago = job().with_expires_at(Timestamp::UNIX_EPOCH);
    let ids = store.enqueue(&[job(), long_ago.clone(), job().with_expiry(Duration::from_nanos(1))]).await;
    let ids = ids.expect("enqueue");
    let later = enqueue(&store, long_ago.with_delay(Duration::from_millis(1))).await;
    let worker = worker_on(&store).await;
    let held = worker.take_when_due(4).await;
    let left = |id| held.iter().find(|held| held.job.id == id).expect("it was claimed").job.expires_in;
    assert_eq!(left(ids[0]), None);
    assert_eq!(
        (left(ids[1]), left(ids[2]), left(later)),
        (Some(Duration::ZERO), Some(Duration::ZERO), Some(Duration::ZERO))
    );
    let expired = held.iter().find(|held| held.job.id == ids[1]).expect("it was claimed");
    worker.except(expired, Disposition::expired(Timestamp::UNIX_EPOCH)).await;
    let record = record(&store, ids[1]).await;
    assert_eq!(record.reason.as_deref(), Some("expired: it was not started by 1970-01-01T00:00:00Z"));
}

/// A job keeps its time when it is scheduled, retried, snoozed, handed back, rescued, and without a handler.
pub async fn a_job_expires_wherever_it_was(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let new = NewJob::new(KIND, args(7)).with_queue(QUEUE);
    let id = enqueue(&store, new.with_delay(Duration::from_millis(1)).with_expiry(LONG)).await;
    let expires_at = record(&store, id).await.expires_at.expect("it expires");
    let worker_a = worker_on(&store).await;
    for disposition in [
        Disposition::Retry { delay: Duration::ZERO, error: "no".into() },
        Disposition::Snooze { delay: Duration::ZERO },
        Disposition::Return,
        Disposition::NoHandler,
    ] {
        let held = worker_a.take_when_due(1).await.remove(0);
        assert_nearly_all_left(&held);
        worker_a.except(&held, disposition).await;
    }
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_nearly_all_left(&dying.take_when_due(1).await[0]);
    rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_nearly_all_left(&worker_a.take_when_due(1).await[0]);
    assert_eq!(record(&store, id).await.expires_at, Some(expires_at));
}
