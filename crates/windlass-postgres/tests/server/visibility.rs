//! Claims follow commit visibility, whatever order ids and transaction ids were assigned in.

use crate::cluster::Fixture;
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass_conformance::steps::{TestWorker, worker_on};
use windlass_core::{JobId, JobState, Store};

async fn enqueue(fixture: &Fixture, client: &tokio_postgres::Client) -> JobId {
    let sql = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    JobId(client.query_one(&sql, &[]).await.expect("enqueues").get(0))
}

async fn begun(fixture: &Fixture) -> tokio_postgres::Client {
    let client = fixture.sql().await;
    client.batch_execute("BEGIN").await.expect("begins");
    client
}

async fn worker(fixture: &Fixture) -> TestWorker {
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    worker_on(&store).await
}

#[tokio::test]
async fn a_late_commit_is_claimed_after_later_ids_were() {
    let fixture = Fixture::fresh().await;
    let (early, late) = (begun(&fixture).await, fixture.sql().await);
    let first = enqueue(&fixture, &early).await;
    let second = enqueue(&fixture, &late).await;
    assert!(first < second);
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(10).await, [second]);
    assert_eq!(worker.drain(10).await, []);
    early.batch_execute("COMMIT").await.unwrap();
    assert_eq!(worker.drain(10).await, [first]);
    assert_eq!(worker.drain(10).await, []);
}

/// Who has seen a part of what became visible sees the rest later, and nothing twice.
#[tokio::test]
async fn a_difference_may_be_seen_in_parts() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    let wrong = fixture.text(
        "SELECT count(*), count(*) FILTER (WHERE x <= until AND seen) FROM generate_series(8, 39) AS u(until), generate_series(8, 42) AS x,
         unnest(ARRAY['20:20:', '10:20:10,12,15,19', '12:20:12']::pg_snapshot[], ARRAY['30:30:', '12:30:12,22,25', '35:40:35,39']::pg_snapshot[]) AS s(a, b),
         LATERAL (SELECT pg_visible_in_snapshot(x::text::xid8, a) OR x <= until AND pg_visible_in_snapshot(x::text::xid8, b)) AS e(seen)
         WHERE until::text::xid8 < pg_snapshot_xmax(b) AND seen <> pg_visible_in_snapshot(x::text::xid8, windlass.seen_until(a, b, until::text::xid8))",
    );
    let row = client.query_one(&wrong, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 0));
}

#[tokio::test]
async fn transactions_that_commit_in_reverse_all_come() {
    let fixture = Fixture::fresh().await;
    let worker = worker(&fixture).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        let client = begun(&fixture).await;
        let ids = [enqueue(&fixture, &client).await, enqueue(&fixture, &client).await];
        open.push((client, ids));
    }
    while let Some((client, ids)) = open.pop() {
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(worker.drain(1).await, ids);
    }
}

#[tokio::test]
async fn rolled_back_jobs_never_come_and_savepoints_count_by_their_fate() {
    let fixture = Fixture::fresh().await;
    let client = begun(&fixture).await;
    let kept = enqueue(&fixture, &client).await;
    client.batch_execute("SAVEPOINT a").await.unwrap();
    enqueue(&fixture, &client).await;
    client.batch_execute("ROLLBACK TO a; SAVEPOINT b").await.unwrap();
    let released = enqueue(&fixture, &client).await;
    client.batch_execute("RELEASE b").await.unwrap();
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(10).await, []);
    client.batch_execute("COMMIT; BEGIN").await.unwrap();
    enqueue(&fixture, &client).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(worker.drain(10).await, [kept, released]);
}

#[tokio::test]
async fn a_prepared_transaction_comes_when_it_is_resolved() {
    let fixture = Fixture::fresh().await;
    let client = begun(&fixture).await;
    let id = enqueue(&fixture, &client).await;
    // Of the whole server, as are those of other tests.
    client.batch_execute("PREPARE TRANSACTION 'until it is resolved'").await.unwrap();
    let other = enqueue(&fixture, &client).await;
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(10).await, [other]);
    client.batch_execute("COMMIT PREPARED 'until it is resolved'").await.unwrap();
    assert_eq!(worker.drain(10).await, [id]);
}

/// A prepared transaction keeps what it has until it is resolved, its unique key too; what it brings comes then, keyed and scheduled jobs as well, or never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_transaction_with_keys_and_times_comes_whole_or_not_at_all() {
    for commits in [true, false] {
        let fixture = Fixture::fresh().await;
        let (client, other) = (fixture.sql().await, fixture.sql().await);
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        client.batch_execute(&fixture.text("SELECT windlass.limit_keys('q', serial => true)")).await.unwrap();
        client.batch_execute("BEGIN; SET LOCAL windlass.wakeup = off").await.unwrap();
        let unique = "SELECT id, conflict FROM windlass.enqueue_unique('k', unique_key => 'u', queue => 'q')";
        let keyed = "SELECT windlass.enqueue('k', '{}', 'q', key => 'acme')";
        let later = "SELECT windlass.enqueue('k', '{}', 'q', scheduled_at => now() + interval '1 hour')";
        let mut prepared = Vec::new();
        for sql in [unique, keyed, later] {
            let row = client.query_one(&fixture.text(sql), &[]).await.expect(sql);
            prepared.push(JobId(row.get(0)));
        }
        client.batch_execute("PREPARE TRANSACTION 'keys and times'").await.unwrap();
        let behind = JobId(other.query_one(&fixture.text(keyed), &[]).await.unwrap().get(0));
        assert_eq!(worker.drain(10).await, [behind], "it waits for none that nobody can see");
        for id in &prepared {
            assert!(store.job(*id).await.unwrap().is_none());
        }
        let (rival, waits) = (fixture.text(unique), backend(&other).await);
        let rival = tokio::spawn(async move { other.query_one(&rival, &[]).await.unwrap() });
        until_it_waits(&client, waits).await;
        let verb = if commits { "COMMIT" } else { "ROLLBACK" };
        client.batch_execute(&format!("{verb} PREPARED 'keys and times'")).await.unwrap();
        let row = rival.await.unwrap();
        let (id, conflict) = (JobId(row.get(0)), row.get::<_, Option<String>>(1));
        let states = async || {
            let mut states = Vec::new();
            for id in &prepared {
                states.push(store.job(*id).await.unwrap().map(|job| job.state));
            }
            states
        };
        let drained: HashSet<_> = worker.drain(10).await.into_iter().collect();
        if commits {
            assert_eq!((id, conflict.is_some()), (prepared[0], true), "one job has the key");
            assert_eq!(drained, HashSet::from([prepared[0], prepared[1]]));
            let (done, later) = (Some(JobState::Completed), Some(JobState::Scheduled));
            assert_eq!(states().await, [done, done, later]);
        } else {
            assert_eq!((prepared.contains(&id), conflict), (false, None), "the key is free again");
            assert_eq!(drained, HashSet::from([id]));
            assert_eq!(states().await, [None; 3]);
        }
    }
}

async fn backend(client: &tokio_postgres::Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Until that session waits for a lock.
async fn until_it_waits(client: &tokio_postgres::Client, backend: i32) {
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted)";
    while !client.query_one(waits, &[&backend]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

/// What a savepoint took back never was: its unique key is free in the same transaction, and what it replaced is as it was.
#[tokio::test]
async fn a_rolled_back_savepoint_frees_its_unique_key() {
    let fixture = Fixture::fresh().await;
    let client = begun(&fixture).await;
    let unique = async |args: &str, rule: &str| {
        let sql = format!(
            "SELECT id, conflict FROM windlass.enqueue_unique('k', '{args}', unique_key => 'u', on_conflict => '{rule}', queue => 'q')"
        );
        let row = client.query_one(&fixture.text(&sql), &[]).await.expect("enqueues");
        (JobId(row.get(0)), row.get::<_, Option<String>>(1))
    };
    client.batch_execute("SAVEPOINT a").await.unwrap();
    let (gone, conflict) = unique("1", "keep").await;
    assert_eq!(conflict, None);
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    let (kept, conflict) = unique("2", "keep").await;
    assert_eq!((kept == gone, conflict), (false, None));
    client.batch_execute("SAVEPOINT b").await.unwrap();
    let (replaced, conflict) = unique("3", "replace").await;
    assert_eq!((replaced == kept, conflict.is_some()), (false, true), "one with an id of its own");
    client.batch_execute("ROLLBACK TO b; COMMIT").await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    assert!(store.job(gone).await.unwrap().is_none());
    assert_eq!(store.job(kept).await.unwrap().unwrap().args.as_str(), "2");
    assert_eq!(worker(&fixture).await.drain(10).await, [kept]);
    let (next, conflict) = unique("4", "keep").await;
    assert_eq!((next == kept, conflict), (false, None), "it has completed");
}

#[tokio::test]
async fn an_aborted_bulk_insert_leaves_the_queue_as_it_was() {
    let fixture = Fixture::fresh().await;
    let client = begun(&fixture).await;
    let bulk = fixture.text(
        "INSERT INTO windlass.job (lane_id, kind, args)
         SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{}' FROM generate_series(1, 20000)",
    );
    client.batch_execute(&bulk).await.unwrap();
    let other = fixture.sql().await;
    let before = enqueue(&fixture, &other).await;
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(10).await, [before]);
    client.batch_execute("ROLLBACK").await.unwrap();
    let after = enqueue(&fixture, &other).await;
    assert_eq!(worker.drain(10).await, [after]);
}

#[tokio::test]
async fn jobs_of_one_huge_transaction_are_paged_by_id() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    let sql = fixture.text(
        "SELECT windlass.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'q'))
         FROM generate_series(1, 500)))",
    );
    let ids: Vec<_> = client.query(&sql, &[]).await.unwrap().iter().map(|row| JobId(row.get(0))).collect();
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(7).await, ids);
}

#[tokio::test]
async fn a_repeatable_read_enqueue_and_an_isolation_default_are_fine() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    let first = enqueue(&fixture, &client).await;
    client.batch_execute("COMMIT").await.unwrap();
    let worker = worker(&fixture).await;
    assert_eq!(worker.drain(10).await, [first]);
    // claim refuses to run where its snapshots would be stale.
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let claim = fixture.text("SELECT * FROM windlass.claim(1, ARRAY['q'], ARRAY[1])");
    let error = client.query(&claim, &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("READ COMMITTED"), "{error}");
}

/// What the soak's producers have committed, and what its claimers were handed.
#[derive(Default)]
struct Tally {
    committed: Mutex<HashSet<JobId>>,
    claimed: Mutex<Vec<JobId>>,
    producing: AtomicUsize,
}

/// Producers with random delays, rollbacks, savepoints and long transactions against four claimers with
/// random batch sizes: nothing lost, nothing twice, nothing that was rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soak_of_late_commits_and_rollbacks_loses_nothing() {
    const PRODUCERS: usize = 12;
    const TRANSACTIONS: usize = 60;
    let fixture = Arc::new(Fixture::fresh().await);
    let tally = Arc::new(Tally { producing: AtomicUsize::new(PRODUCERS), ..Tally::default() });
    let mut tasks = Vec::new();
    for seed in 0..PRODUCERS {
        let (fixture, tally) = (Arc::clone(&fixture), Arc::clone(&tally));
        tasks.push(tokio::spawn(async move {
            produce(&fixture, &tally, seed as u64, TRANSACTIONS).await;
            tally.producing.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    for seed in 0..4 {
        let (fixture, tally) = (Arc::clone(&fixture), Arc::clone(&tally));
        tasks.push(tokio::spawn(async move { consume(&fixture, &tally, 100 + seed).await }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let claimed = tally.claimed.lock().unwrap();
    let unique: HashSet<_> = claimed.iter().copied().collect();
    assert_eq!(unique.len(), claimed.len(), "a job was handed out twice");
    assert_eq!(unique, *tally.committed.lock().unwrap(), "lost jobs, or jobs that were rolled back");
}

async fn produce(fixture: &Fixture, tally: &Tally, seed: u64, transactions: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let client = fixture.sql().await;
    for _ in 0..transactions {
        client.batch_execute("BEGIN").await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..random.usize(1..20) {
            let undone = random.u8(..10) == 0;
            client.batch_execute("SAVEPOINT s").await.unwrap();
            let id = enqueue(fixture, &client).await;
            if undone {
                client.batch_execute("ROLLBACK TO s").await.unwrap();
            } else {
                client.batch_execute("RELEASE s").await.unwrap();
                ids.push(id);
            }
        }
        // Keeps the transaction open while others begin and commit; nothing waits for this pause.
        if random.u8(..4) == 0 {
            tokio::time::sleep(Duration::from_millis(random.u64(..40))).await;
        }
        if random.u8(..10) == 0 {
            client.batch_execute("ROLLBACK").await.unwrap();
        } else {
            client.batch_execute("COMMIT").await.unwrap();
            tally.committed.lock().unwrap().extend(ids);
        }
    }
}

async fn consume(fixture: &Fixture, tally: &Tally, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let worker = worker(fixture).await;
    let mut empty_after_end = 0;
    while empty_after_end < 3 {
        let over = tally.producing.load(Ordering::SeqCst) == 0;
        let claims = worker.claim(random.u32(1..60)).await;
        worker.complete_claims(&claims).await;
        let ids = claims.iter().flat_map(|claim| claim.jobs.iter().map(|job| job.id));
        tally.claimed.lock().unwrap().extend(ids);
        // Another claimer may hold the lane just now, so one empty answer proves nothing.
        empty_after_end = if over && claims.is_empty() { empty_after_end + 1 } else { 0 };
        tokio::task::yield_now().await;
    }
}

/// An older snapshot would show a job where it no longer is.
#[tokio::test]
async fn what_moves_jobs_by_hand_needs_read_committed() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    for call in ["cancel", "retry"] {
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        let refused =
            client.query_one(&fixture.text(&format!("SELECT windlass.{call}(1)")), &[]).await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("WL006"), "{call}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}
