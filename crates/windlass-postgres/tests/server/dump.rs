//! A dump has its snapshot some time before its locks: nothing that it does not see elsewhere is truncated meanwhile.

use crate::cluster::{Fixture, connect};
use windlass_conformance::steps::{KEEP_NOTHING, worker};
use windlass_core::{Args, JobStore, NewJob};

#[tokio::test]
async fn a_dump_that_begins_misses_no_job_and_no_claim() {
    let fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    store.configure(&KEEP_NOTHING).await.unwrap();
    let jobs = vec![NewJob::new("k", Args::parse("{}").unwrap()).with_queue("q"); 5];
    store.enqueue(&jobs).await.unwrap();
    let seam = std::sync::Arc::new(store.clone()) as std::sync::Arc<dyn windlass_core::Store>;
    let worker = worker(&seam, &["q"], &[], std::time::Duration::from_secs(60)).await;
    let held = worker.take(2).await;
    worker.complete(&held[0]).await;

    let database = fixture.url.split('?').next().unwrap();
    let dump = connect(&format!("{database}?application_name=pg_dump")).await;
    dump.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_snapshot()").await.unwrap();
    let maintain = async || {
        let mut truncated = 0;
        for _ in 0..8 {
            truncated += store.maintain().await.unwrap().truncated;
        }
        truncated
    };
    assert_eq!(maintain().await, 0);
    let seen = "SELECT (SELECT count(*) FROM windlass.job), (SELECT count(*) FROM windlass.claim)";
    let row = dump.query_one(&fixture.text(seen), &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5, 1));
    dump.batch_execute("COMMIT").await.unwrap();
    drop(dump);

    let gone =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pg_dump'";
    let sql = fixture.sql().await;
    while sql.query_opt(gone, &[]).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(maintain().await > 0, "nothing is emptied after it");
    worker.complete(&held[1]).await;
    assert_eq!(worker.drain(10).await.len(), 3, "jobs that moved are all there");
}
