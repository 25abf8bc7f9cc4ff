//! A job whose kind a worker does not know waits for one that does.

use crate::{Fixture, steps::*};
use jiff::Timestamp;
use std::sync::Arc;
use windlass_core::{Disposition, JobFilter, JobId, JobRecord, JobState, NewJob, Settled, Store};

fn of_kind(kind: &'static str) -> NewJob {
    NewJob::new(kind, args(0)).with_queue(QUEUE)
}

/// Enqueues a job that a worker then had no handler for.
async fn one_without_handler(store: &Arc<dyn Store>) -> JobId {
    let id = enqueue(store, of_kind("b")).await;
    let knows_a = worker(store, &[QUEUE], &["a"], LEASE).await;
    let held = knows_a.take_one().await;
    knows_a.except(&held, Disposition::NoHandler).await;
    id
}

/// A job without a handler is available, used no attempt, and is not handed to workers that lack its kind. It says what it waits for.
pub async fn a_job_without_handler_waits(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, of_kind("b")).await;
    let knows_a = worker(&store, &[QUEUE], &["a"], LEASE).await;
    let held = knows_a.take_one().await;
    assert_eq!(knows_a.except(&held, Disposition::NoHandler).await, Settled::Accepted);
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt, seen.crash_count), (JobState::Available, 0, 0));
    let listed = store.jobs(&JobFilter::default()).await.expect("list");
    for seen in [&seen, &listed[0]] {
        assert_eq!(seen.reason.as_deref(), Some(JobRecord::NO_HANDLER));
    }
    assert_eq!(queue(&store, QUEUE).await.available, 1);
    knows_a.finds_nothing().await;
    worker(&store, &[QUEUE], &["a", "c"], LEASE).await.finds_nothing().await;
    worker(&store, &["other"], &["b"], LEASE).await.finds_nothing().await;
}

/// The queue says how many of its available jobs wait so, whatever becomes of them.
pub async fn jobs_without_handler_are_counted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let counts = || async {
        let stats = queue(&store, QUEUE).await;
        (stats.available, stats.no_handler)
    };
    let mut ids = Vec::new();
    for n in 1..=4 {
        ids.push(one_without_handler(&store).await);
        assert_eq!(counts().await, (n, n));
    }
    enqueue(&store, of_kind("a")).await;
    assert_eq!(counts().await, (5, 4));
    let since = queue_since(&store).await.expect("some wait");
    let enqueued = [record(&store, ids[0]).await.enqueued_at, record(&store, ids[1]).await.enqueued_at];
    assert!(enqueued[0] <= since && since <= enqueued[1], "{since} is not between {enqueued:?}");
    store.cancel(&ids[..1]).await.expect("cancel");
    assert_eq!(counts().await, (4, 3));
    assert_eq!(worker_on(&store).await.drain(10).await.len(), 4);
    assert_eq!((counts().await, queue_since(&store).await), ((0, 0), None));
}

async fn queue_since(store: &Arc<dyn Store>) -> Option<Timestamp> {
    queue(store, QUEUE).await.oldest_no_handler_at
}

/// It is handed to a worker that knows its kind.
pub async fn it_goes_to_one_who_knows_it(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = store.enqueue(&[of_kind("b"), of_kind("c")]).await.expect("enqueue");
    let knows_a = worker(&store, &[QUEUE], &["a"], LEASE).await;
    for held in knows_a.take(2).await {
        knows_a.except(&held, Disposition::NoHandler).await;
    }
    let knows_b = worker(&fixture.open().await, &[QUEUE], &["a", "b"], LEASE).await;
    let held = knows_b.take_one().await;
    assert_eq!((held.job.id, &*held.job.kind, held.job.attempt), (ids[0], "b", 1));
    assert_eq!(record(&store, ids[0]).await.reason, None);
    assert_eq!(knows_b.complete(&held).await, Settled::Accepted);
    knows_b.finds_nothing().await;
    assert_eq!(state(&store, ids[0]).await, JobState::Completed);
    assert_eq!(state(&store, ids[1]).await, JobState::Available);
}

/// A worker that names its kind twice gets it once, and so it is with the next one.
pub async fn a_kind_that_is_named_twice_is_one(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let twice = worker(&store, &[QUEUE], &["b", "a", "b"], LEASE).await;
    for _ in 0..2 {
        let id = one_without_handler(&store).await;
        let held = held(&twice.claim(5).await);
        assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), [id]);
        twice.complete(&held[0]).await;
        let counts = queue(&store, QUEUE).await;
        assert_eq!((counts.available, counts.running), (0, 0));
    }
}

/// It is handed to a worker that takes any kind.
pub async fn it_goes_to_one_who_takes_any(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = one_without_handler(&store).await;
    assert_eq!(worker_on(&store).await.drain(10).await, [id]);
}

/// Jobs without a handler do not hold up the others of their lane, and the limit counts them.
pub async fn others_pass_a_job_without_handler(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..20).map(|n| of_kind(if n % 2 == 0 { "b" } else { "a" })).collect();
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let knows_a = worker(&store, &[QUEUE], &["a"], LEASE).await;
    let mut done = Vec::new();
    for held in knows_a.take(20).await {
        match &*held.job.kind {
            "a" => {
                knows_a.complete(&held).await;
                done.push(held.job.id);
            }
            _ => assert_eq!(knows_a.except(&held, Disposition::NoHandler).await, Settled::Accepted),
        }
    }
    assert_eq!(done, ids.iter().copied().skip(1).step_by(2).collect::<Vec<_>>());
    let mut later = worker_on(&store).await.drain(3).await;
    later.sort_unstable();
    assert_eq!(later, ids.iter().copied().step_by(2).collect::<Vec<_>>());
}

/// A job that found no handler, was taken, and found none again is still one job, with its attempts.
pub async fn a_job_without_handler_twice_is_one(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, of_kind("b")).await;
    let (knows_a, any) = (worker(&store, &[QUEUE], &["a"], LEASE).await, worker_on(&store).await);
    knows_a.except(&knows_a.take_one().await, Disposition::NoHandler).await;
    let retry = Disposition::Retry { delay: std::time::Duration::ZERO, error: "no".into() };
    any.except(&any.take_one().await, retry).await;
    knows_a.except(&knows_a.take_when_due(1).await.remove(0), Disposition::NoHandler).await;
    let held = any.take_one().await;
    assert_eq!((held.job.id, held.job.attempt), (id, 2));
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt), (JobState::Running, 2));
    assert_eq!(store.jobs(&JobFilter::default()).await.expect("list").len(), 1);
    assert_eq!(any.except(&held, Disposition::NoHandler).await, Settled::Accepted);
    let held = any.take_one().await;
    assert_eq!((held.job.id, held.job.attempt), (id, 2));
    store.deregister(any.id).await.expect("deregister");
    let other = worker_on(&store).await;
    assert_eq!(other.drain(10).await, [id]);
    assert_eq!(queue(&store, QUEUE).await.completed, 1);
}

/// A job without a handler of a paused queue waits for the resume too.
pub async fn a_paused_queue_keeps_its_jobs_without_handler(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = one_without_handler(&store).await;
    store.pause(QUEUE, true).await.expect("pause");
    let any = worker_on(&store).await;
    any.finds_nothing().await;
    store.pause(QUEUE, false).await.expect("resume");
    assert_eq!(any.drain(10).await, [id]);
}
