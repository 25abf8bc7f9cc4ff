use crate::fixture::{Fixture, exception, job};
use std::time::Duration;
use windlass_core::{Completion, Disposition, JobSet, JobState, JobStore, Settled};

const MINUTE: Duration = Duration::from_secs(60);

fn failed() -> Disposition {
    Disposition::Retry { delay: MINUTE, error: "no route".into() }
}

#[tokio::test]
async fn a_failed_job_waits_and_comes_back_with_its_next_attempt() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    assert_eq!(f.except(worker, &held, failed()).await, Settled::Accepted);
    assert_eq!(f.except(worker, &held, failed()).await, Settled::Already);
    let record = f.job(id).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempt), (JobState::Retryable, 1));
    assert_eq!(record.errors.len(), 1, "a repeated call adds no error");
    assert_eq!((record.errors[0].attempt, record.errors[0].error.as_str()), (1, "no route"));

    assert_eq!(f.promote(10).await.unwrap().next_due, Some(MINUTE));
    assert!(f.take(worker, 1).await.is_empty());
    f.advance(MINUTE);
    assert_eq!(f.promote(10).await.unwrap().count, 1);
    let again = f.take_one(worker).await;
    assert_eq!((again.job.id, again.job.attempt), (id, 2));
    assert_ne!(again.job.position, held.job.position);
    // The first claim has nothing more to say about it.
    assert_eq!(f.except(worker, &held, failed()).await, Settled::Already);
    assert_eq!(f.state(id).await, JobState::Running);
}

#[tokio::test]
async fn a_snooze_uses_no_attempt() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Snooze { delay: MINUTE }).await;
    let record = f.job(id).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempt), (JobState::Scheduled, 0));
    f.advance(MINUTE);
    f.promote(1).await.unwrap();
    assert_eq!(f.take_one(worker).await.job.attempt, 1);
}

#[tokio::test]
async fn cancelled_and_discarded_jobs_stay_readable() {
    let f = Fixture::new();
    let added = f.add(2).await;
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Cancel { reason: "not wanted".into() }).await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Discard { error: "broken".into(), failed: true }).await;
    let cancelled = f.job(added[0]).await.unwrap().unwrap();
    assert_eq!((cancelled.state, cancelled.reason.as_deref()), (JobState::Cancelled, Some("not wanted")));
    let discarded = f.job(added[1]).await.unwrap().unwrap();
    assert_eq!((discarded.state, discarded.attempt), (JobState::Discarded, 1));
    assert_eq!(discarded.errors.len(), 1);
    assert_eq!(discarded.claimed_by, Some(worker));
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.running, queue.cancelled, queue.discarded), (0, 1, 1));
}

#[tokio::test]
async fn a_returned_job_is_available_at_once() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Return).await;
    assert_eq!(f.state(id).await, JobState::Available);
    let again = f.take_one(worker).await;
    assert_eq!((again.job.id, again.job.attempt, again.job.crash_count), (id, 1, 0));
}

#[tokio::test]
async fn the_rest_of_a_claim_is_without_the_exceptions_of_the_same_call() {
    let f = Fixture::new();
    let added = f.add(3).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 3).await.remove(0);
    let held = crate::fixture::Held { claim: claim.reference, job: claim.jobs[1].clone() };
    let mut request = exception(worker, &held, failed());
    request.completions.push(Completion { claim: claim.reference, jobs: JobSet::Rest, count: 2 });
    let reply = f.settle(&request).await.unwrap();
    assert_eq!((reply.completions[0], reply.exceptions[0]), (Settled::Accepted, Settled::Accepted));
    assert_eq!(f.state(added[0]).await, JobState::Completed);
    assert_eq!(f.state(added[1]).await, JobState::Retryable);
    let reply = f.settle(&request).await.unwrap();
    assert_eq!((reply.completions[0], reply.exceptions[0]), (Settled::Already, Settled::Already));
}

#[tokio::test]
async fn due_jobs_come_in_the_order_of_their_time() {
    let f = Fixture::new();
    let delays = [30, 10, 20, 0].map(|s| job("test").with_delay(Duration::from_secs(s)));
    let added = f.enqueue(&delays).await.unwrap();
    assert_eq!(f.state(added[3]).await, JobState::Available, "no delay, no waiting");
    assert_eq!(f.state(added[0]).await, JobState::Scheduled);
    f.advance(Duration::from_secs(25));
    let promoted = f.promote(1).await.unwrap();
    assert_eq!((promoted.count, promoted.next_due), (1, Some(Duration::ZERO)));
    let promoted = f.promote(10).await.unwrap();
    assert_eq!((promoted.count, promoted.next_due), (1, Some(Duration::from_secs(5))));
    let worker = f.worker().await;
    assert_eq!(crate::fixture::ids(&f.take(worker, 9).await), [added[3], added[1], added[2]]);
}
