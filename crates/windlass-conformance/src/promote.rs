//! Promotion: what waits for its time comes when it is due, not before.

use crate::{Fixture, steps::*};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use windlass_core::JobState;

/// A job that is put off is scheduled, and not handed out before its time.
pub async fn not_before_its_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let at = Timestamp::now() + SignedDuration::from_hours(2);
    let ids = store.enqueue(&[job().with_delay(LATER), job().with_scheduled_at(at)]).await.expect("enqueue");
    for &id in &ids {
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Scheduled, 0));
    }
    let kept = record(&store, ids[1]).await.scheduled_at.expect("when");
    assert!(kept.duration_since(at).as_millis().abs() <= 1, "{kept} is not {at}");
    worker_on(&store).await.finds_nothing().await;
}

/// A job comes once it is due: available after a promotion, with its first attempt.
pub async fn a_due_job_comes(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = jobs(3).into_iter().map(|job| job.with_delay(Duration::from_millis(20))).collect();
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let worker = worker_on(&store).await;
    let mut due = worker.take_when_due(3).await;
    due.sort_unstable_by_key(|held| held.job.id);
    assert_eq!(due.iter().map(|held| held.job.id).collect::<Vec<_>>(), ids);
    assert!(due.iter().all(|held| held.job.attempt == 1));
    for held in &due {
        worker.complete(held).await;
    }
    worker.finds_nothing().await;
}

/// A time in the past means at once, without a promotion.
pub async fn the_past_is_now(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let past = Timestamp::now() - SignedDuration::from_hours(1);
    let ids = store.enqueue(&[job().with_scheduled_at(past), job().with_scheduled_at(Timestamp::MIN)]).await;
    assert_eq!(worker_on(&store).await.drain(10).await, ids.expect("enqueue"));
}

/// A mixed batch gives its immediate jobs at once and keeps the others.
pub async fn a_mixed_batch_is_split_by_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..10).map(|n| if n % 2 == 0 { job() } else { job().with_delay(LATER) }).collect();
    let ids = store.enqueue(&batch).await.expect("enqueue");
    assert!(ids.is_sorted(), "{ids:?}");
    let now: Vec<_> = ids.iter().copied().step_by(2).collect();
    assert_eq!(worker_on(&store).await.drain(100).await, now);
    assert_eq!(queue(&store, QUEUE).await.scheduled, 5);
}

/// A promotion says how long until the next job is due, and nothing when none waits.
pub async fn it_says_when_the_next_is_due(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    assert_eq!(store.promote(10).await.expect("promote").next_due, None);
    enqueue(&store, job().with_delay(2 * LATER)).await;
    enqueue(&store, job().with_delay(LATER)).await;
    let promoted = store.promote(10).await.expect("promote");
    let next = promoted.next_due.expect("one waits");
    assert!(next <= LATER && next > LATER - DEADLINE, "{next:?}");
    assert_eq!(promoted.count, 0);
}

/// A promotion keeps to its limit, and says that more is due.
pub async fn it_keeps_to_its_limit(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = jobs(5).into_iter().map(|job| job.with_delay(Duration::from_millis(20))).collect();
    store.enqueue(&batch).await.expect("enqueue");
    let mut promoted = 0;
    while promoted < 5 {
        let step = eventually("jobs are due", || async {
            let step = store.promote(2).await.expect("promote");
            (step.count > 0).then_some(step)
        })
        .await;
        assert!(step.count <= 2, "{step:?}");
        promoted += step.count;
        assert_eq!(step.next_due.is_some(), promoted < 5, "{step:?} after {promoted}");
    }
    assert_eq!(promoted, 5);
    assert_eq!(worker_on(&store).await.drain(10).await.len(), 5);
}

/// Promoted jobs keep their queue and their priority.
pub async fn promoted_jobs_keep_their_lane(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let soon = Duration::from_millis(1);
    let worse = enqueue(&store, job().with_priority(9).with_delay(soon)).await;
    let better = enqueue(&store, job().with_priority(-9).with_delay(soon)).await;
    enqueue(&store, job().with_queue("other").with_delay(soon)).await;
    eventually("all three are available", || async {
        store.promote(10).await.expect("promote");
        (queue(&store, QUEUE).await.available == 2 && queue(&store, "other").await.available == 1)
            .then_some(())
    })
    .await;
    assert_eq!(worker_on(&store).await.drain(1).await, [better, worse]);
}
