//! A database restored into another cluster: transaction ids start again, nothing unfinished is lost.
mod cluster;

use cluster::Fixture;
use std::{collections::BTreeSet, sync::Arc};
use windlass_conformance::steps::{enqueue_jobs, ids, worker_on};
use windlass_core::Store;

/// What pg_dump and a restore into a younger cluster leave behind: the same rows, with transaction ids
/// and snapshots that this cluster has not reached.
const TRANSPLANT: &str = "
    UPDATE windlass.job SET xid = (xid::text::bigint + 1000000000)::text::xid8 WHERE xid < '4611686018427387904';
    UPDATE windlass.claim SET
        from_snapshot = CASE from_snapshot::text WHEN '4:4:' THEN from_snapshot
            ELSE format('%s:%s:', pg_snapshot_xmin(from_snapshot)::text::bigint + 1000000000,
                        pg_snapshot_xmax(from_snapshot)::text::bigint + 1000000000)::pg_snapshot END,
        to_snapshot = format('%s:%s:', pg_snapshot_xmin(to_snapshot)::text::bigint + 1000000000,
                             pg_snapshot_xmax(to_snapshot)::text::bigint + 1000000000)::pg_snapshot,
        start_xid = (start_xid::text::bigint + 1000000000)::text::xid8,
        end_xid = (end_xid::text::bigint + 1000000000)::text::xid8";

#[tokio::test]
async fn unfinished_jobs_are_available_again_after_a_restore() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 30).await;
    let worker = worker_on(&store).await;
    worker.complete_claims(&worker.claim(10).await).await;
    let running = ids(&worker.claim(5).await);
    assert_eq!(running, all[10..15]);
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(TRANSPLANT)).await.unwrap();
    // A producer that knows nothing of it, before any worker comes: one row of this cluster's own.
    let sql = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    let new = windlass_core::JobId(client.query_one(&sql, &[]).await.unwrap().get(0));

    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await;
    restored.promote(1_000).await.unwrap();
    let found: BTreeSet<_> = worker.drain(7).await.into_iter().collect();
    let expected: BTreeSet<_> = all[10..].iter().copied().chain([new]).collect();
    assert_eq!(found, expected, "the finished ten stay finished, all others come once");
    // And it stays that way: the next connection finds nothing to move.
    let again: Arc<dyn Store> = Arc::new(fixture.store().await);
    assert_eq!(worker_on(&again).await.drain(7).await, []);
}
