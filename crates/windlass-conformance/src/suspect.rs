//! Suspects: a job that keeps killing its workers is found out, and the innocent are spared.

use crate::{Fixture, steps::*};
use windlass_core::{Disposition, JobId, JobState};

/// Nobody is discarded without being the suspect: their crash count stops short of the limit.
const INNOCENT_CRASHES: u16 = 2;

async fn crash_counts(fixture: &dyn Fixture, ids: &[JobId]) -> Vec<u16> {
    let store = fixture.open().await;
    let mut counts = Vec::new();
    for &id in ids {
        counts.push(record(&store, id).await.crash_count);
    }
    counts
}

/// When a suspect was announced, only its crash count rises.
pub async fn only_the_suspect_is_counted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take(3).await;
    store.suspect(dying.id, Some(ids[1])).await.expect("suspect");
    let report = rescue_of(&store, &dying, 3).await;
    assert_eq!((report.rescued, report.discarded), (3, 0));
    assert_eq!(crash_counts(fixture, &ids).await, [0, 1, 0]);
}

/// A suspect that was cleared is one of many again.
pub async fn a_cleared_suspect_is_one_of_many(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take(3).await;
    store.suspect(dying.id, Some(ids[1])).await.expect("suspect");
    store.suspect(dying.id, None).await.expect("clear");
    rescue_of(&store, &dying, 3).await;
    assert_eq!(crash_counts(fixture, &ids).await, [1, 1, 1]);
}

/// Without a suspect the count of all that were held rises, but never so far that one is discarded.
pub async fn the_innocent_are_never_discarded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    for death in 1..=5 {
        let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
        dying.take(3).await;
        let report = rescue_of(&store, &dying, 3).await;
        assert_eq!((report.rescued, report.discarded), (3, 0), "death {death}");
        assert_eq!(crash_counts(fixture, &ids).await, [death.min(INNOCENT_CRASHES); 3]);
    }
}

/// At the limit the suspect is discarded as a crash loop; those held beside it are not.
pub async fn a_crash_loop_ends(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    for death in 1..=3 {
        let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
        dying.take(3).await;
        store.suspect(dying.id, Some(ids[1])).await.expect("suspect");
        let report = rescue_of(&store, &dying, 3).await;
        let (rescued, discarded) = if death == 3 { (2, 1) } else { (3, 0) };
        assert_eq!((report.rescued, report.discarded), (rescued, discarded), "death {death}");
    }
    let culprit = record(&store, ids[1]).await;
    assert_eq!((culprit.state, culprit.crash_count, culprit.attempt), (JobState::Discarded, 3, 1));
    assert_eq!(culprit.reason, Some(Disposition::crash_loop(culprit.crash_count)));
    let mut left = worker_on(&store).await.drain(10).await;
    left.sort_unstable();
    assert_eq!(left, [ids[0], ids[2]]);
}

/// A dead or unknown worker cannot announce a suspect.
pub async fn a_dead_worker_suspects_nobody(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take_one().await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let error = store.suspect(dying.id, Some(id)).await.expect_err("dead");
    assert!(error.is_lease_lost(), "{error}");
}
