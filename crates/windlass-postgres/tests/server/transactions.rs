//! Enqueueing and completing inside the user's own transaction.

use crate::cluster::Fixture;
use std::sync::Arc;
use windlass_conformance::steps::{job, jobs, state, worker_on};
use windlass_core::{Disposition, JobLease, JobState, JobStore, Settled, Store};

#[tokio::test]
async fn jobs_share_the_fate_of_the_transaction() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let worker = worker_on(&seam).await;
    let mut client = fixture.sql().await;
    for count in [1, 3, 500] {
        let tx = client.transaction().await.unwrap();
        let mut batch = jobs(count);
        batch.push(job().with_delay(std::time::Duration::from_secs(3600)));
        let ids = store.enqueue_in(&tx, &batch).await.unwrap();
        assert_eq!(worker.drain(100).await, []);
        tx.commit().await.unwrap();
        assert_eq!(worker.drain(100).await, ids[..count]);
        assert_eq!(state(&seam, ids[count]).await, JobState::Scheduled);

        let tx = client.transaction().await.unwrap();
        let ids = store.enqueue_in(&tx, &batch).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(worker.drain(100).await, []);
        assert!(store.job(ids[count]).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn completion_shares_the_fate_of_the_transaction() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    store.enqueue(&jobs(4)).await.unwrap();
    let worker = worker_on(&seam).await;
    let held = worker.take(4).await;
    let lease = |index: usize| JobLease {
        worker: worker.id,
        claim: held[index].claim,
        job: held[index].job.id,
        position: held[index].job.position,
    };
    let mut client = fixture.sql().await;

    let tx = client.transaction().await.unwrap();
    store.complete_in(&tx, lease(0)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(state(&seam, held[0].job.id).await, JobState::Completed);
    // The engine settles what the handler's return says; the first fate stands.
    let retry = Disposition::Retry { delay: std::time::Duration::ZERO, error: "late".into() };
    assert_eq!(worker.except(&held[0], retry).await, Settled::Already);
    assert_eq!(worker.complete(&held[0]).await, Settled::Already);

    let tx = client.transaction().await.unwrap();
    store.complete_in(&tx, lease(1)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(state(&seam, held[1].job.id).await, JobState::Running);
    assert_eq!(worker.complete(&held[1]).await, Settled::Accepted);

    // A worker that was taken down cannot complete, and its transaction is told so.
    store.deregister(worker.id).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let error = store.complete_in(&tx, lease(2)).await.unwrap_err();
    assert!(error.is_lease_lost(), "{error}");
    drop(tx);
    assert_eq!(state(&seam, held[2].job.id).await, JobState::Available);
}

/// An open transaction of one handler keeps no other job of its worker from being settled.
#[tokio::test]
async fn an_open_completion_stalls_no_other_settlement() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    store.enqueue(&jobs(3)).await.unwrap();
    let worker = worker_on(&seam).await;
    let held = worker.take(3).await;
    let mut client = fixture.sql().await;
    let tx = client.transaction().await.unwrap();
    store
        .complete_in(
            &tx,
            JobLease {
                worker: worker.id,
                claim: held[0].claim,
                job: held[0].job.id,
                position: held[0].job.position,
            },
        )
        .await
        .unwrap();
    assert_eq!(worker.complete(&held[1]).await, Settled::Accepted);
    assert_eq!(worker.except(&held[2], Disposition::Return).await, Settled::Accepted);
    assert_eq!(state(&seam, held[0].job.id).await, JobState::Running);
    tx.commit().await.unwrap();
    assert_eq!(state(&seam, held[0].job.id).await, JobState::Completed);
}

/// While a user's transaction holds a completion open, a rescue does not take the job: it would run
/// twice if the transaction then committed.
#[tokio::test]
async fn an_open_completion_holds_off_the_rescue() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    store.enqueue(&jobs(1)).await.unwrap();
    let worker =
        windlass_conformance::steps::worker(&seam, &["q"], &[], std::time::Duration::from_millis(1)).await;
    let rescuer = worker_on(&seam).await;
    let held = worker.take_one().await;
    let mut client = fixture.sql().await;
    let tx = client.transaction().await.unwrap();
    let lease =
        JobLease { worker: worker.id, claim: held.claim, job: held.job.id, position: held.job.position };
    store.complete_in(&tx, lease).await.unwrap();
    assert_eq!(store.rescue(rescuer.id).await.unwrap().workers, []);
    tx.commit().await.unwrap();
    let report = windlass_conformance::steps::rescue_of(&seam, &worker, 5).await;
    assert_eq!((report.rescued, report.discarded), (0, 0));
    assert_eq!(state(&seam, held.job.id).await, JobState::Completed);
}

/// A handler whose COMMIT is on its way may have ended by a timeout: its worker settles the job otherwise,
/// and must not be believed before that transaction has ended.
#[tokio::test]
async fn a_settlement_waits_for_an_open_transaction_that_completes_the_job() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let worker = worker_on(&seam).await;
    let retry = || Disposition::Retry { delay: std::time::Duration::ZERO, error: "timed out".into() };
    let mut client = fixture.sql().await;
    for commits in [true, false] {
        store.enqueue(&jobs(1)).await.unwrap();
        let held = worker.take_one().await;
        let lease =
            JobLease { worker: worker.id, claim: held.claim, job: held.job.id, position: held.job.position };
        let tx = client.transaction().await.unwrap();
        store.complete_in(&tx, lease).await.unwrap();
        let error = worker.try_settle(vec![], vec![held.exception(retry())]).await.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("still open"), "{error}");
        if commits {
            tx.commit().await.unwrap();
            assert_eq!(worker.except(&held, retry()).await, Settled::Already);
            assert_eq!(state(&seam, held.job.id).await, JobState::Completed);
            worker.finds_nothing().await;
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(worker.except(&held, retry()).await, Settled::Accepted);
            assert_eq!(worker.take_when_due(1).await[0].job.id, held.job.id);
        }
    }
}

/// An older snapshot shows a lease that was lost meanwhile, so such a transaction is refused.
#[tokio::test]
async fn a_completion_needs_read_committed() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    store.enqueue(&jobs(1)).await.unwrap();
    let worker = worker_on(&seam).await;
    let held = worker.take_one().await;
    let mut client = fixture.sql().await;
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    let tx = client.build_transaction().isolation_level(level).start().await.unwrap();
    let lease =
        JobLease { worker: worker.id, claim: held.claim, job: held.job.id, position: held.job.position };
    let error = store.complete_in(&tx, lease).await.unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("READ COMMITTED"), "{error}");
}
