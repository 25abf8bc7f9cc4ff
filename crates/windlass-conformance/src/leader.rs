//! Leadership: one maintainer at a time.

use crate::{Fixture, steps::*};

/// One worker leads; others do not until it ends; it may renew.
pub async fn one_leads_at_a_time(fixture: &dyn Fixture) {
    let (first, second) = (worker_on(&fixture.open().await).await, worker_on(&fixture.open().await).await);
    for _ in 0..3 {
        assert!(first.store.lead(first.id, LEASE).await.expect("lead"));
        assert!(!second.store.lead(second.id, LEASE).await.expect("lead"));
    }
}

/// Resigning hands leadership over at once; who does not lead has nothing to give up.
pub async fn resigning_hands_over(fixture: &dyn Fixture) {
    let (first, second) = (worker_on(&fixture.open().await).await, worker_on(&fixture.open().await).await);
    assert!(first.store.lead(first.id, LEASE).await.expect("lead"));
    second.store.resign(second.id).await.expect("resign");
    assert!(!second.store.lead(second.id, LEASE).await.expect("lead"));
    first.store.resign(first.id).await.expect("resign");
    first.store.resign(first.id).await.expect("resign again");
    assert!(second.store.lead(second.id, LEASE).await.expect("lead"));
    assert!(!first.store.lead(first.id, LEASE).await.expect("lead"));
}

/// A leader that falls silent loses leadership when its term ends.
pub async fn a_term_ends(fixture: &dyn Fixture) {
    let (first, second) = (worker_on(&fixture.open().await).await, worker_on(&fixture.open().await).await);
    assert!(first.store.lead(first.id, TINY_LEASE).await.expect("lead"));
    eventually("the term ends", || async {
        second.store.lead(second.id, LEASE).await.expect("lead").then_some(())
    })
    .await;
    assert!(!first.store.lead(first.id, LEASE).await.expect("lead"));
}

/// The place of a leader that died is free when its jobs are, however long its term was; what is left of it leads no more.
pub async fn a_dead_leaders_place_is_free(fixture: &dyn Fixture) {
    let admin = fixture.open().await;
    let dead = worker(&admin, &[QUEUE], &[], TINY_LEASE).await;
    let heir = worker_on(&admin).await;
    assert!(dead.store.lead(dead.id, LEASE).await.expect("lead"));
    assert!(!heir.store.lead(heir.id, LEASE).await.expect("lead"));
    rescue_of(&admin, &dead, MAX_CRASHES).await;
    assert!(!dead.store.lead(dead.id, LEASE).await.unwrap_or(false));
    assert!(heir.store.lead(heir.id, LEASE).await.expect("lead"));
}

/// Of many that want to lead at once, one does.
pub async fn one_of_many_wins(fixture: &dyn Fixture) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let worker = worker_on(&fixture.open().await).await;
        tasks.spawn(async move { worker.store.lead(worker.id, LEASE).await.expect("lead") });
    }
    let leaders = tasks.join_all().await.into_iter().filter(|&leads| leads).count();
    assert_eq!(leaders, 1);
}
