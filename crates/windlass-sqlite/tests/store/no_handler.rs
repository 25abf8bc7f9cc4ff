use crate::fixture::{Fixture, Held, ids, job};
use windlass_core::{Disposition, JobState, JobStore};

#[tokio::test]
async fn a_job_without_handler_waits_for_a_worker_that_knows_its_kind() {
    let f = Fixture::new();
    let id = f.enqueue(&[job("rare")]).await.unwrap()[0];
    let (plain, expert) = (f.worker_for(&["test"]).await, f.worker_for(&["a", "rare"]).await);
    let held = f.take_one(plain).await;
    f.except(plain, &held, Disposition::NoHandler).await;
    assert_eq!(f.state(id).await, JobState::Available);
    assert_eq!(f.queues().await.unwrap()[0].available, 1);
    assert!(f.take(plain, 5).await.is_empty());
    let held = f.take_one(expert).await;
    assert_eq!((held.job.id, held.job.attempt), (id, 1));
    assert_eq!(f.state(id).await, JobState::Running);
    // Whatever happens next works as with any other job.
    f.except(expert, &held, Disposition::Return).await;
    let held = f.take_one(plain).await;
    assert_eq!(held.job.id, id);
}

#[tokio::test]
async fn a_worker_for_any_kind_takes_jobs_without_handler_too_in_order_of_priority() {
    let f = Fixture::new();
    let batch = [job("rare").with_priority(5), job("test"), job("rare").with_priority(-5)];
    let added = f.enqueue(&batch).await.unwrap();
    let plain = f.worker_for(&["test"]).await;
    for claim in f.take(plain, 3).await {
        for job in claim.jobs.into_iter().filter(|job| &*job.kind == "rare") {
            f.except(plain, &Held { claim: claim.reference, job }, Disposition::NoHandler).await;
        }
    }
    f.deregister(plain).await.unwrap();
    let any = f.worker().await;
    let claims = f.take(any, 9).await;
    assert_eq!(ids(&claims), [added[2], added[1], added[0]]);
    for claim in &claims {
        f.complete(any, claim).await;
    }
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.available, queue.running, queue.completed), (0, 0, 3));
    assert_eq!(f.state(added[0]).await, JobState::Completed);
}
