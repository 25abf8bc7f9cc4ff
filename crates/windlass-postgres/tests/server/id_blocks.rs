//! Job ids are taken in blocks: unique and ascending, whoever takes them.

use crate::cluster::Fixture;
use std::{collections::HashSet, sync::Arc};
use windlass_conformance::steps::{KEEP_NOTHING, jobs, worker_on};
use windlass_core::{JobFilter, JobId, JobState, JobStore, Store};
use windlass_postgres::PostgresStore;

/// Blocks of 16, and a remainder.
const BATCH: usize = 50;

async fn by_sql(fixture: &Fixture, client: &tokio_postgres::Client) -> JobId {
    let sql = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    JobId(client.query_one(&sql, &[]).await.expect("enqueues").get(0))
}

async fn enqueue_jobs(store: &PostgresStore, count: usize) -> Vec<JobId> {
    store.enqueue(&jobs(count)).await.expect("enqueues")
}

fn assert_ascending(ids: &[JobId]) {
    assert!(ids.windows(2).all(|two| two[0] < two[1]), "{ids:?}");
}

#[tokio::test]
async fn ids_ascend_over_batches_and_single_jobs() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let mut ids = Vec::new();
    for size in [1, 7, 8, 15, 16, 17, BATCH] {
        ids.extend(enqueue_jobs(&store, size).await);
        ids.push(by_sql(&fixture, &client).await);
        ids.extend(store.enqueue_once(&format!("{size}"), &jobs(size)).await.unwrap().ids);
    }
    assert_ascending(&ids);
    let blocks = fixture.text("SELECT last_value <= 40 * 16 FROM windlass.job_id_seq");
    assert!(client.query_one(&blocks, &[]).await.unwrap().get::<_, bool>(0), "a block serves 16 jobs");
}

#[tokio::test]
async fn writers_at_once_never_share_an_id() {
    let fixture = Fixture::fresh().await;
    let mut writers = Vec::new();
    for _ in 0..8 {
        let (store, client, sql) =
            (fixture.store().await, fixture.sql().await, fixture.text("SELECT windlass.enqueue('k')"));
        writers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..20 {
                ids.extend(enqueue_jobs(&store, BATCH).await);
                ids.push(JobId(client.query_one(&sql, &[]).await.unwrap().get(0)));
            }
            assert_ascending(&ids);
            ids
        }));
    }
    let mut all = HashSet::new();
    for writer in writers {
        all.extend(writer.await.unwrap());
    }
    assert_eq!(all.len(), 8 * 20 * (BATCH + 1));
}

/// A page of completed jobs reaches over gaps of ids, however wide.
#[tokio::test]
async fn listing_reaches_over_gaps() {
    let fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    let seam: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&seam).await;
    let mut ids = enqueue_jobs(&store, 3).await;
    let gap = fixture.text("SELECT setval('windlass.job_id_seq', 100000000)");
    fixture.sql().await.query_one(&gap, &[]).await.unwrap();
    ids.extend(enqueue_jobs(&store, 3).await);
    assert_eq!(worker.drain(10).await, ids);
    for state in [Some(JobState::Completed), None] {
        let filter = JobFilter { state, ..JobFilter::default() };
        let listed: Vec<_> = store.jobs(&filter).await.unwrap().iter().map(|job| job.id).collect();
        assert_eq!(listed, ids, "{state:?}");
    }
}

/// Housekeeping removes a cancelled job of a paused queue. Those that are found by it, as the first of their block of ids, are
/// found at every moment.
#[tokio::test]
async fn the_first_of_a_block_goes_last() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let seam: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.configure(&KEEP_NOTHING).await.unwrap();
    // A step moves 10,000 jobs, which are no whole number of blocks of 16 after these, each in one of its own.
    let mut ids = enqueue_jobs(&store, 5).await;
    ids.extend(enqueue_jobs(&store, 25_000).await);
    let firsts: Vec<JobId> = ids.iter().copied().filter(|id| id.0 & 15 == 1).collect();
    assert_eq!(store.cancel(&firsts).await.unwrap().len(), firsts.len());
    let others: Vec<JobId> = ids.into_iter().filter(|id| id.0 & 15 != 1).collect();
    let step = fixture.text("SELECT again FROM windlass.maintain()");
    let emptied =
        fixture.text("SELECT segment > 0 AND pg_relation_size('windlass.job_0') = 0 FROM windlass.ring");
    let found =
        fixture.text("SELECT id FROM unnest($1::bigint[]) AS id WHERE (windlass.find_job(id)).place IS NULL");
    let mut steps = 0;
    while !client.query_one(&emptied, &[]).await.unwrap().get::<_, bool>(0) {
        client.query_one(&step, &[]).await.unwrap();
        steps += 1;
        let near: Vec<i64> =
            others.iter().map(|id| id.0).filter(|id| id % 10_000 < 256 || id % 997 < 16).collect();
        let lost: Vec<i64> =
            client.query(&found, &[&near]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(lost.is_empty(), "after step {steps}: {lost:?}");
        assert!(steps < 100, "the segment is never empty");
    }
    assert!(steps > 3, "{steps}");
    let worker = worker_on(&seam).await;
    assert_eq!(worker.drain(5_000).await, others);
}
