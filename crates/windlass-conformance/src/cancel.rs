//! Cancelling: what no worker holds will not run.

use crate::{Fixture, steps::*};
use windlass_core::{CancelReply, Disposition, JobId, JobState, NewJob};

/// Whatever waits can be cancelled, and is never handed out.
pub async fn what_waits_is_cancelled(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let retryable = enqueue(&store, job()).await;
    let without_handler = enqueue(&store, NewJob::new("unknown", args(0)).with_queue(QUEUE)).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(2).await;
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    worker.settle(vec![], vec![jobs[0].exception(retry), jobs[1].exception(Disposition::NoHandler)]).await;
    let available = enqueue(&store, job()).await;
    let scheduled = enqueue(&store, job().with_delay(LATER)).await;

    let ids = [available, scheduled, retryable, without_handler];
    assert_eq!(store.cancel(&ids).await.expect("cancel"), [CancelReply::Cancelled; 4]);
    for id in ids {
        let seen = record(&store, id).await;
        assert_eq!(seen.state, JobState::Cancelled);
        assert!(seen.finished_at.is_some() && seen.reason.is_some(), "{seen:?}");
    }
    worker.finds_nothing().await;
    assert_eq!(store.promote(10).await.expect("promote").next_due, None);
    assert_eq!(store.cancel(&ids).await.expect("cancel again"), [CancelReply::Finished; 4]);
}

/// A running job is left alone, and finished and unknown ones are named as such.
pub async fn the_rest_is_left_alone(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(3).await;
    worker.complete(&jobs[1]).await;
    worker.except(&jobs[2], Disposition::Discard { error: "bad".into(), failed: true }).await;
    let replies = store.cancel(&[ids[0], ids[1], ids[2], JobId(i64::MAX), JobId(-1)]).await.expect("cancel");
    use CancelReply::{Finished, NotFound, Running};
    assert_eq!(replies, [Running, Finished, Finished, NotFound, NotFound]);
    assert_eq!(state(&store, ids[0]).await, JobState::Running);
    worker.complete(&jobs[0]).await;
    assert_eq!(state(&store, ids[0]).await, JobState::Completed);
    assert_eq!(state(&store, ids[2]).await, JobState::Discarded);
}

/// A cancelled job leaves no gap: those around it come, in order, it does not.
pub async fn a_cancelled_job_is_skipped(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 20).await;
    let worker = worker_on(&store).await;
    let mut done = worker.take(2).await.iter().map(|held| held.job.id).collect::<Vec<_>>();
    let cancelled: Vec<_> = ids[2..].iter().copied().step_by(3).collect();
    store.cancel(&cancelled).await.expect("cancel");
    done.extend(worker.drain(4).await);
    let expected: Vec<_> = ids.into_iter().filter(|id| !cancelled.contains(id)).collect();
    assert_eq!(done, expected);
}

/// Cancelling everything leaves an empty queue, however the claims are cut.
pub async fn a_cancelled_backlog_gives_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 300).await;
    store.cancel(&ids).await.expect("cancel");
    let last = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let taken =
        eventually("the claimer gets past the cancelled jobs", || async { worker.claim(10).await.pop() })
            .await;
    assert_eq!(ids_of(&taken), [last]);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.cancelled, stats.running), (0, 300, 1));
}

/// A job named twice is cancelled once.
pub async fn a_repeated_id_is_cancelled_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let replies = store.cancel(&[id, id]).await.expect("cancel");
    assert_eq!((replies.len(), replies[0]), (2, CancelReply::Cancelled));
    assert_eq!(queue(&store, QUEUE).await.cancelled, 1);
    assert!(store.cancel(&[]).await.expect("cancel nothing").is_empty());
}

fn ids_of(claim: &windlass_core::Claim) -> Vec<JobId> {
    ids(std::slice::from_ref(claim))
}
