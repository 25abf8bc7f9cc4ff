//! Keys whose jobs ended where claims do not see it any more: the segment that said so was emptied before.

use crate::{
    cluster::Fixture,
    keys::{claim, complete, of, work_all},
};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{LATER, QUEUE, empty_segments, eventually, worker_on};
use windlass_core::{CancelReply, DeleteReply, Disposition, KeyLimit, KeyLimitsChange, Store};

/// The first job of a key waited for its retry, became due, and was taken away where it then stood in the log; nobody claimed of the queue before that row went with its segment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_taken_away_in_the_log_frees_its_key_though_its_row_is_removed() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
    for deletes in [false, true] {
        let ids = store.enqueue(&of(&format!("deletes: {deletes}"), 2)).await.unwrap();
        let worker = worker_on(&store).await;
        let first = worker.take_one().await;
        worker
            .except(&first, Disposition::Retry { delay: Duration::from_millis(50), error: "no".into() })
            .await;
        assert!(claim(&worker, 10).await.is_empty());
        eventually("it is due", || async { (store.promote(10).await.unwrap().count > 0).then_some(()) })
            .await;
        match deletes {
            true => assert_eq!(store.delete(&ids[..1]).await.unwrap(), [DeleteReply::Deleted]),
            false => assert_eq!(store.cancel(&ids[..1]).await.unwrap(), [CancelReply::Cancelled]),
        }
        empty_segments(&store).await;
        assert_eq!(work_all(&worker, 10).await, ids[1..], "deleted: {deletes}");
    }
}

/// What was held when the queue got its limits ended, and nobody claimed of the queue before the settlement went with its segment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_before_the_limits_is_held_no_more_though_its_end_is_removed() {
    for looks in [false, true] {
        let fixture = Fixture::fresh().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        let ids = store.enqueue(&of("a", 2)).await.unwrap();
        let held = [worker.take_one().await];
        store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
        if looks {
            assert!(claim(&worker, 10).await.is_empty());
        }
        complete(&worker, &held).await;
        empty_segments(&store).await;
        assert_eq!(work_all(&worker, 10).await, ids[1..], "a claim saw the limits: {looks}");
    }
}

/// Keys that are serial no more while all their jobs wait for a retry, and are cancelled: nothing is kept of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_of_keys_whose_jobs_wait_when_the_limits_change() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let serial = KeyLimitsChange::Default(KeyLimit::serial());
    store.limit_keys(QUEUE, &serial).await.unwrap();
    let ids = store.enqueue(&[of("a", 1), of("b", 1), of("held", 1)].concat()).await.unwrap();
    let worker = worker_on(&store).await;
    let (held, tried): (Vec<_>, Vec<_>) =
        claim(&worker, 10).await.into_iter().partition(|held| held.job.id == ids[2]);
    for one in &tried {
        worker.except(one, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    }
    assert!(claim(&worker, 10).await.is_empty());
    let two = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(2));
    store.limit_keys(QUEUE, &two).await.unwrap();
    let known = fixture.text("SELECT key FROM windlass.key_room ORDER BY key");
    let known = async |client: &tokio_postgres::Client| {
        let rows = client.query(&known, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let client = fixture.sql().await;
    assert_eq!(known(&client).await, ["held"]);
    assert_eq!(store.cancel(&ids[..2]).await.unwrap(), [CancelReply::Cancelled; 2]);
    complete(&worker, &held).await;
    assert!(claim(&worker, 10).await.is_empty());
    assert_eq!(known(&client).await, [""; 0]);
}
