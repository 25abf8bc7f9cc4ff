//! A database restored into another cluster: transaction ids start again, nothing unfinished is lost.
mod cluster;

use cluster::Fixture;
use std::{collections::BTreeSet, sync::Arc};
use tokio_postgres::Client;
use windlass_conformance::steps::{enqueue_jobs, ids, worker_on};
use windlass_core::{JobId, Store};

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
        end_xid = (end_xid::text::bigint + 1000000000)::text::xid8;
    UPDATE windlass.home SET xid = (xid::text::bigint + 1000000000)::text::xid8, system = 1";

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
    assert!(worker.try_claim(1).await.expect_err("the log is not in order").is_lease_lost());
    // Producers that know nothing of it, before any worker comes: rows of this cluster's own.
    let new = enqueue_every_way(&fixture, &client).await;

    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await;
    restored.promote(1_000).await.unwrap();
    let found: BTreeSet<_> = worker.drain(7).await.into_iter().collect();
    let expected: BTreeSet<_> = all[10..].iter().copied().chain(new).collect();
    assert_eq!(found, expected, "the finished ten stay finished, all others come once");
    // And it stays that way: the next connection finds nothing to move.
    let again: Arc<dyn Store> = Arc::new(fixture.store().await);
    assert_eq!(worker_on(&again).await.drain(7).await, []);
}

/// One job each: in a statement of its own, in a savepoint, and in a function's block that catches errors. The rows of
/// the last two carry the id of a subtransaction.
async fn enqueue_every_way(fixture: &Fixture, client: &Client) -> Vec<JobId> {
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    let plain: i64 = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    client.batch_execute("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT s").await.unwrap();
    let saved: i64 = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    client.batch_execute("COMMIT").await.unwrap();
    let caught = format!(
        "DO $$ BEGIN PERFORM pg_current_xact_id(); BEGIN PERFORM {}; EXCEPTION WHEN division_by_zero THEN END; END $$",
        &enqueue[7..]
    );
    client.batch_execute(&caught).await.unwrap();
    let newest = fixture.text("SELECT max(id) FROM windlass.job");
    let caught: i64 = client.query_one(&newest, &[]).await.unwrap().get(0);
    [plain, saved, caught].map(JobId).to_vec()
}

/// Logical replication carries rows and no sequences.
#[tokio::test]
async fn ids_stay_unique_where_the_sequences_began_anew() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let old = enqueue_jobs(&store, 3).await;
    let before = worker_on(&store).await;
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(TRANSPLANT)).await.unwrap();
    client.batch_execute(&fixture.text("ALTER SEQUENCE windlass.job_id_seq RESTART")).await.unwrap();
    client.batch_execute(&fixture.text("ALTER TABLE windlass.worker ALTER id RESTART")).await.unwrap();
    client.batch_execute(&fixture.text("ALTER TABLE windlass.lane ALTER id RESTART")).await.unwrap();
    let new = enqueue_every_way(&fixture, &client).await;
    assert!(old.contains(&new[0]), "two jobs have one id: {old:?}, {new:?}");

    let after = worker_on(&store).await;
    assert!(after.id > before.id);
    store.promote(1_000).await.unwrap();
    let mut found = after.drain(7).await;
    found.extend(enqueue_jobs(&store, 3).await);
    let distinct: BTreeSet<_> = found.iter().copied().collect();
    assert_eq!((found.len(), distinct.len()), (9, 9), "{found:?}");
    assert!(old.iter().all(|id| distinct.contains(id)));
    store.enqueue(&[windlass_conformance::steps::job().with_queue("another")]).await.expect("makes a lane");
}

/// A table that was only rewritten, as pg_repack does, moves nothing.
#[tokio::test]
async fn a_rewritten_table_is_not_a_move() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let held = worker.claim(1).await;
    let rewrite = "UPDATE windlass.home SET one = one";
    fixture.sql().await.batch_execute(&fixture.text(rewrite)).await.unwrap();
    assert!(worker.try_claim(1).await.is_err_and(|error| error.is_lease_lost()));
    let other = worker_on(&store).await;
    worker.complete_claims(&held).await;
    assert_eq!(other.drain(7).await, all[1..]);
}
