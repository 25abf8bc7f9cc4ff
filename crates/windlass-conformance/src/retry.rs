//! Retrying by hand: dead, cancelled and retryable jobs are available now.

use crate::{Fixture, steps::*};
use windlass_core::{CancelReply, Disposition, JobId, JobRecord, JobState, RetryReply};

/// A retryable job does not wait any longer; the attempts it used stay used.
pub async fn a_retryable_job_comes_now(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    worker.except(&held, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    assert_eq!(store.retry(&[id]).await.expect("retry"), [RetryReply::Retried]);
    assert_eq!(state(&store, id).await, JobState::Available);
    let held = worker.take_one().await;
    assert_eq!((held.job.id, held.job.attempt), (id, 2));
    worker.complete(&held).await;
    assert_eq!(state(&store, id).await, JobState::Completed);
}

/// A dead job comes back with all of its attempts anew, and can die and come back again.
pub async fn a_dead_job_gets_its_attempts_anew(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_max_attempts(3)).await;
    let worker = worker_on(&store).await;
    for _ in 0..2 {
        let held = worker.take_one().await;
        assert_eq!(held.job.max_attempts - held.job.attempt, 2, "three attempts, this one included");
        worker.except(&held, Disposition::Discard { error: "bad".into(), failed: true }).await;
        assert_eq!(state(&store, id).await, JobState::Discarded);
        assert_eq!(store.retry(&[id]).await.expect("retry"), [RetryReply::Retried]);
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.finished_at, seen.reason), (JobState::Available, None, None));
    }
    let held = worker.take_one().await;
    worker.complete(&held).await;
    assert_eq!(state(&store, id).await, JobState::Completed);
    worker.finds_nothing().await;
}

/// So does one that had failed, or outlived its worker, was available again, and was cancelled then. It comes once.
pub async fn a_job_that_was_cancelled_while_it_was_available_does_too(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = dying.take(2).await;
    let failed = held.iter().find(|held| held.job.id == ids[0]).expect("the first job");
    dying.except(failed, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_eq!(store.retry(&ids[..1]).await.expect("retry"), [RetryReply::Retried]);
    let counts = |seen: &JobRecord| (seen.state, seen.attempt, seen.crash_count);
    let seen = [record(&store, ids[0]).await, record(&store, ids[1]).await];
    assert_eq!(seen.each_ref().map(counts), [(JobState::Available, 1, 0), (JobState::Available, 0, 1)]);

    assert_eq!(store.cancel(&ids).await.expect("cancel"), [CancelReply::Cancelled; 2]);
    assert_eq!(store.retry(&ids).await.expect("retry"), [RetryReply::Retried; 2]);
    for &id in &ids {
        assert_eq!(counts(&record(&store, id).await), (JobState::Available, 0, 0), "job {id}");
    }
    assert_eq!(queue(&store, QUEUE).await.available, 2);
    let worker = worker_on(&store).await;
    let again = worker.take(2).await;
    assert!(again.iter().all(|held| (held.job.attempt, held.job.crash_count) == (1, 0)), "{again:?}");
    for held in &again {
        worker.complete(held).await;
    }
    worker.finds_nothing().await;
    for &id in &ids {
        assert_eq!(state(&store, id).await, JobState::Completed);
    }
}

/// A cancelled job comes back, whoever cancelled it.
pub async fn a_cancelled_job_comes_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    worker.except(&held, Disposition::Cancel { reason: "unwanted".into() }).await;
    store.cancel(&ids[1..]).await.expect("cancel");
    assert_eq!(store.retry(&ids).await.expect("retry"), [RetryReply::Retried; 2]);
    let mut done = worker.drain(10).await;
    done.sort_unstable();
    assert_eq!(done, ids);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.cancelled), (2, 0));
}

/// What waits or runs already is left alone; completed and unknown jobs are named as such.
pub async fn the_rest_is_left_alone(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let scheduled = enqueue(&store, job().with_delay(LATER)).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(2).await;
    worker.complete(&jobs[0]).await;
    let asked = [ids[0], ids[1], ids[2], scheduled, JobId(i64::MAX)];
    let replies = store.retry(&asked).await.expect("retry");
    use RetryReply::{Completed, NotFound, Pending};
    assert_eq!(replies, [Completed, Pending, Pending, Pending, NotFound]);
    let expected = [JobState::Completed, JobState::Running, JobState::Available, JobState::Scheduled];
    for (&id, expected) in asked.iter().zip(expected) {
        assert_eq!(state(&store, id).await, expected);
    }
    assert_eq!(worker.drain(10).await, [ids[2]]);
}

/// A job named twice is retried once.
pub async fn a_repeated_id_is_retried_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    store.cancel(&[id]).await.expect("cancel");
    let replies = store.retry(&[id, id]).await.expect("retry");
    assert_eq!((replies.len(), replies[0]), (2, RetryReply::Retried));
    assert_eq!(worker_on(&store).await.drain(10).await, [id]);
    assert!(store.retry(&[]).await.expect("retry nothing").is_empty());
}
