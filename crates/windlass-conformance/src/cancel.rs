//! Cancelling: what no worker holds will not run, and what one holds will not run again.

use crate::{Fixture, steps::*};
use std::sync::Arc;
use windlass_core::{CancelReply, Disposition, JobId, JobState, NewJob, RetryReply, Store};

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

/// A running job runs on until its worker is done with it, and finished and unknown ones are named as such.
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

/// The heartbeat of the worker that holds a job says that it is to be cancelled, until it is settled; nobody else's does.
pub async fn its_worker_is_asked(fixture: &dyn Fixture) {
    let (store, asking) = (fixture.open().await, fixture.open().await);
    let ids = enqueue_jobs(&store, 4).await;
    let (worker, other) = (worker_on(&store).await, worker_on(&store).await);
    let jobs = worker.take(3).await;
    other.take_one().await;
    assert_eq!(asked(&store, &worker).await, []);
    for _ in 0..2 {
        assert_eq!(asking.cancel(&[ids[2], ids[0]]).await.expect("cancel"), [CancelReply::Running; 2]);
        assert_eq!(asked(&store, &worker).await, [ids[0], ids[2]]);
    }
    assert_eq!(asked(&store, &other).await, []);
    worker.complete(&jobs[0]).await;
    assert_eq!(asked(&store, &worker).await, [ids[2]]);
    worker.except(&jobs[2], Disposition::Cancel { reason: "as asked".into() }).await;
    assert_eq!(asked(&store, &worker).await, []);
    assert_eq!(state(&store, ids[0]).await, JobState::Completed);
    let cancelled = record(&store, ids[2]).await;
    assert_eq!((cancelled.state, cancelled.reason.as_deref()), (JobState::Cancelled, Some("as asked")));
    assert_eq!(state(&store, ids[1]).await, JobState::Running);
}

/// Whatever would bring a job back that is to be cancelled cancels it. What ends it stands.
pub async fn it_does_not_come_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 8).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(8).await;
    store.cancel(&ids[..7]).await.expect("cancel");
    let error = || "half done".to_owned();
    let says = [
        Disposition::Retry { delay: LATER, error: error() },
        Disposition::Snooze { delay: LATER },
        Disposition::NoHandler,
        Disposition::Return,
        Disposition::Undecryptable { delay: LATER, error: error() },
        Disposition::Discard { error: error(), failed: true },
        Disposition::Complete { result: Some(args(1)) },
        Disposition::Return,
    ];
    let exceptions = jobs.iter().zip(says).map(|(held, says)| held.exception(says)).collect();
    worker.settle(vec![], exceptions).await;
    for id in &ids[..5] {
        let seen = record(&store, *id).await;
        assert_eq!(
            (seen.state, seen.reason.as_deref(), seen.attempt),
            (JobState::Cancelled, Some(Disposition::BY_REQUEST), 1)
        );
    }
    assert_eq!(errors_of(&store, ids[0]).await, [(1, error())]);
    assert_eq!(state(&store, ids[5]).await, JobState::Discarded);
    assert_eq!(state(&store, ids[6]).await, JobState::Completed);
    assert_eq!(worker.take_one().await.job.id, ids[7], "nobody asked for this one");
    worker.finds_nothing().await;
    assert_eq!(store.promote(10).await.expect("promote").next_due, None);
}

/// The jobs of a worker that dies or leaves do not come back either when they are to be cancelled.
pub async fn its_workers_end_cancels_it(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 4).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take(2).await;
    let leaving = worker_on(&store).await;
    leaving.take(2).await;
    store.cancel(&[ids[0], ids[2]]).await.expect("cancel");
    let report = rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_eq!((report.rescued, report.discarded), (1, 0));
    store.deregister(leaving.id).await.expect("deregister");
    for id in [ids[0], ids[2]] {
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Cancelled, 1));
    }
    let back = worker_on(&store).await.take(2).await;
    assert_eq!(back.iter().map(|held| held.job.id).collect::<Vec<_>>(), [ids[1], ids[3]]);
}

/// A job that was cancelled while it ran can be retried, and then nobody is asked to stop it.
pub async fn a_retry_takes_it_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    for says in [
        Disposition::Return,
        Disposition::Cancel { reason: "stopped".into() },
        Disposition::Discard { error: "bad".into(), failed: true },
    ] {
        let held = worker.take_one().await;
        store.cancel(&[id]).await.expect("cancel");
        worker.except(&held, says).await;
        assert_eq!(store.retry(&[id]).await.expect("retry"), [RetryReply::Retried]);
    }
    let held = worker.take_one().await;
    assert_eq!(asked(&store, &worker).await, []);
    worker.except(&held, Disposition::Snooze { delay: LATER }).await;
    assert_eq!(state(&store, id).await, JobState::Scheduled);
}

/// Once the job is settled nobody is asked any more, however long ago that was and whatever housekeeping did since.
pub async fn a_request_ends_with_its_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let id = enqueue(&store, job()).await;
    let held = worker.take_one().await;
    assert_eq!(store.cancel(&[id]).await.expect("cancel"), [CancelReply::Running]);
    worker.complete(&held).await;
    for _ in 0..6 {
        maintain_with(&store, KEEP_NOTHING).await;
    }
    assert_eq!(store.heartbeat(worker.id).await.expect("heartbeat").cancel, []);
}

/// What the worker's heartbeat says, in order.
async fn asked(store: &Arc<dyn Store>, worker: &TestWorker) -> Vec<JobId> {
    let mut asked = store.heartbeat(worker.id).await.expect("heartbeat").cancel;
    asked.sort_unstable();
    asked
}

fn ids_of(claim: &windlass_core::Claim) -> Vec<JobId> {
    ids(std::slice::from_ref(claim))
}
