//! The hot path creates no dead tuples, and its cost does not grow with what surrounds it.

use crate::cluster::Fixture;
use std::sync::Arc;
use windlass_conformance::steps::{QUEUE, eventually, worker_on};
use windlass_core::{Args, Disposition, JobStore, KeyLimit, KeyLimitsChange, NewJob, Settings, Store};

fn jobs(count: usize) -> Vec<NewJob> {
    let args = Args::parse(r#"{"id": 1}"#).unwrap();
    vec![NewJob::new("k", args).with_queue(QUEUE); count]
}

/// After a mixed run (bulk, singles, completes, partial settlements, retries, returns, cancels, a
/// rescue, a promotion) the server counted no update and no delete on the hot tables.
#[tokio::test]
async fn nothing_updates_or_deletes_the_log() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let ids = store.enqueue(&jobs(300)).await.unwrap();
    for job in jobs(20) {
        store.enqueue(&[job]).await.unwrap();
    }
    store.cancel(&ids[250..260]).await.unwrap();
    let worker = worker_on(&seam).await;
    let claims = worker.claim(100).await;
    worker.complete_claims(&claims).await;
    for (index, held) in worker.take(40).await.iter().enumerate() {
        let delay = std::time::Duration::ZERO;
        match index % 5 {
            0 => worker.except(held, Disposition::Retry { delay, error: "x".into() }).await,
            1 => worker.except(held, Disposition::Return).await,
            2 => worker.except(held, Disposition::Snooze { delay }).await,
            3 => worker.except(held, Disposition::Discard { error: "x".into(), failed: true }).await,
            _ => worker.complete(held).await,
        };
    }
    store.promote(1000).await.unwrap();
    worker.take(10).await;
    store.deregister(worker.id).await.unwrap();
    worker_on(&seam).await.drain(50).await;

    // Statistics of other sessions arrive when these end or a second has passed: close ours, then poll.
    store.close().await;
    expect_only_inserts(&fixture, 340).await;
}

/// Nothing was updated or deleted in the log, and so many rows at least were written there.
async fn expect_only_inserts(fixture: &Fixture, at_least: i64) {
    let client = fixture.sql().await;
    let sql = "SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint
               FROM pg_stat_user_tables WHERE schemaname = $1 AND relname ~ '^(job|claim|settlement)_[0-9]$'";
    eventually("the statistics arrive", || async {
        client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
        let row = client.query_one(sql, &[&fixture.schema]).await.unwrap();
        let (inserted, changed): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(changed, 0, "something updates or deletes rows of the log");
        (inserted >= at_least).then_some(())
    })
    .await;
}

/// So it is in a keyed queue, whose jobs wait elsewhere.
#[tokio::test]
async fn keys_do_not_update_or_delete_the_log() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let two = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(2));
    store.limit_keys(QUEUE, &two).await.unwrap();
    let keyed = jobs(200).into_iter().enumerate().map(|(n, job)| job.with_key(format!("{}", n % 20)));
    store.enqueue(&keyed.collect::<Vec<_>>()).await.unwrap();
    let worker = worker_on(&seam).await;
    let mut done = 0;
    while done < 200 {
        let claims = worker.claim(30).await;
        worker.complete_claims(&claims).await;
        done += claims.iter().map(|claim| claim.jobs.len()).sum::<usize>();
    }
    store.close().await;
    expect_only_inserts(&fixture, 400).await;
}

/// A segment is only emptied when nobody reads it; the next round does.
#[tokio::test]
async fn a_reader_delays_truncation_but_stalls_nobody() {
    let fixture = Fixture::fresh().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    store.enqueue(&jobs(50)).await.unwrap();
    let worker = worker_on(&seam).await;
    worker.drain(50).await;
    let request = Settings::DEFAULT.with_retention(std::time::Duration::ZERO).with_segment_bytes(1);
    store.configure(&request).await.unwrap();
    assert!(store.maintain().await.unwrap().rotated);

    let reader = fixture.sql().await;
    reader.batch_execute(&fixture.text("BEGIN; SELECT count(*) FROM windlass.job")).await.unwrap();
    assert_eq!(store.maintain().await.unwrap().truncated, 0);
    store.enqueue(&jobs(1)).await.unwrap();
    assert_eq!(worker.drain(10).await.len(), 1);
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.maintain().await.unwrap().truncated, 1);
}
