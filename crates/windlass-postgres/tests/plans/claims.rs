//! The plan of the claim's hot query is the same index walk whatever the tables hold: a plan that was
//! made while they were empty, or that sorts, made claims 1,000 times slower in the prototype.
//!
//! Cost is told by the pages that a claim touches, not by time.

use crate::{
    cluster::Fixture,
    depth::{deep, deepest},
    drain::drain,
};
use std::sync::Arc;
use windlass_conformance::steps::{LATER, TestWorker, worker, worker_on};
use windlass_core::Store;

/// The pages that a claim of 10 jobs may touch: index descents of 4 leaves of 3 tables and the rows.
const MOST_PAGES: i64 = 600;

async fn bulk(fixture: &Fixture, client: &tokio_postgres::Client, count: i64) {
    let sql = fixture.text(
        "INSERT INTO windlass.job_0 (lane_id, kind, args)
         SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{}' FROM generate_series(1, $1::bigint)",
    );
    client.execute(&sql, &[&count]).await.expect("bulk inserts");
}

/// Claims 10 jobs in `client`'s session and returns how many came and how many pages that touched.
async fn claim_pages(
    fixture: &Fixture,
    client: &tokio_postgres::Client,
    worker: &TestWorker,
) -> (usize, i64) {
    let claim =
        format!("SELECT * FROM windlass.claim({}, ARRAY['q'], ARRAY[10]) WHERE id IS NOT NULL", worker.id);
    fixture.rows_and_pages(client, &claim).await
}

async fn check(
    fixture: &Fixture,
    client: &tokio_postgres::Client,
    worker: &TestWorker,
    jobs: usize,
    when: &str,
) -> i64 {
    let mut least = i64::MAX;
    for round in 0..3 {
        let (rows, pages) = claim_pages(fixture, client, worker).await;
        assert_eq!(rows, jobs, "{when}, round {round}");
        least = least.min(pages); // a round may also plan
    }
    assert!(least <= MOST_PAGES, "{when}: a claim of 10 touched {least} pages");
    least
}

/// One session, so that whatever plan it cached while the tables were empty is used to the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_walks_the_index_whatever_the_tables_hold() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let client = fixture.sql().await;
    let other = fixture.sql().await;

    check(&fixture, &client, &worker, 0, "empty").await;
    bulk(&fixture, &client, 1_000).await;
    check(&fixture, &client, &worker, 10, "1,000 jobs").await;
    worker.drain(5_000).await;

    // An open transaction of a million uncommitted rows: never stepped over, only around.
    other.batch_execute("BEGIN").await.unwrap();
    bulk(&fixture, &other, deep()).await;
    check(&fixture, &client, &worker, 0, "nothing but uncommitted jobs").await;
    bulk(&fixture, &client, 1_000).await;
    check(&fixture, &client, &worker, 10, "jobs behind uncommitted ones").await;
    worker.drain(5_000).await;
    other.batch_execute("ROLLBACK").await.unwrap();

    // A million dead rows: walked once at most, by the claim that finds out.
    claim_pages(&fixture, &client, &worker).await;
    check(&fixture, &client, &worker, 0, "nothing but rolled-back jobs").await;

    let mut backlog = 0;
    for deep in [deep(), deepest()] {
        bulk(&fixture, &client, deep - backlog).await;
        backlog = deep;
        check(&fixture, &client, &worker, 10, &format!("a backlog of {deep}")).await;
    }
    client
        .batch_execute(&fixture.text("ANALYZE windlass.job, windlass.claim, windlass.settlement"))
        .await
        .unwrap();
    check(&fixture, &client, &worker, 10, "a deep backlog, analysed").await;
    drain(&fixture, &other, worker.id).await;
    check(&fixture, &client, &worker, 0, "a long history").await;
    store.enqueue(&vec![windlass_conformance::steps::job(); 100]).await.unwrap();
    check(&fixture, &client, &worker, 10, "a few jobs after a long history").await;
}

/// A job that waits for a handler costs the claims of its lane nothing, beside a million that wait for their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_handler_costs_its_lane_nothing() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let knows = worker(&store, &["q"], &["k", "l", "m"], LATER).await;
    let client = fixture.sql().await;
    let waiting = format!(
        "INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args)
         SELECT nextval('windlass.job_id_seq'), (SELECT windlass.lane_of('q', 0)), now() + interval '1 day',
                CASE WHEN i = 1 THEN 'no_handler' ELSE 'scheduled' END, 20, 'unknown', '{{}}'
         FROM generate_series(1, {}) AS i",
        deep()
    );
    client.batch_execute(&fixture.text(&waiting)).await.unwrap();
    check(&fixture, &client, &knows, 0, "one job without handler, which is not known").await;
    bulk(&fixture, &client, 1_000).await;
    check(&fixture, &client, &knows, 10, "jobs beside one without handler").await;
    client.batch_execute(&fixture.text("ANALYZE windlass.waiting")).await.unwrap();
    check(&fixture, &client, &knows, 10, "the same, analysed").await;
    knows.drain(5_000).await;

    // Who knows the kind gets it, at the same cost.
    for (kinds, who) in [(&["k", "unknown"][..], "knows it"), (&[][..], "knows all")] {
        let worker = worker(&store, &["q"], kinds, LATER).await;
        let mut least = i64::MAX;
        for _ in 0..4 {
            let (rows, pages) = claim_pages(&fixture, &client, &worker).await;
            assert_eq!(rows, 1, "{who}");
            least = least.min(pages); // the first claims of the session also plan
            let again = "UPDATE windlass.waiting SET state = 'no_handler' WHERE id = (
                         SELECT id FROM windlass.waiting WHERE state <> 'no_handler' LIMIT 1)";
            client.batch_execute(&fixture.text(again)).await.unwrap();
        }
        assert!(least <= MOST_PAGES, "{who}: {least} pages");
    }
}

/// Each heartbeat writes the worker's row anew, and a held snapshot keeps all that it was: a day of them is 8,640, on as many pages where
/// there are other workers. A thousand, each of which reads all before it, show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_beside_a_held_snapshot_do_not_count() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    for _ in 0..9 {
        worker_on(&store).await;
    }
    let (client, other) = (fixture.sql().await, fixture.sql().await);
    let before = check(&fixture, &client, &worker, 0, "before").await;
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()").await.unwrap();
    let beats = "DO $$ BEGIN FOR n IN 1..1000 LOOP PERFORM windlass.heartbeat(w.id, NULL, NULL, NULL) FROM windlass.worker w; COMMIT; END LOOP; END $$";
    client.batch_execute(&fixture.text(beats)).await.unwrap();
    for (session, which) in [(&client, "in the same session"), (&fixture.sql().await, "in another one")] {
        let after = check(&fixture, session, &worker, 0, which).await;
        assert!(after <= before + 150, "{before} pages before, {after} after, {which}");
    }
}

/// A held snapshot keeps what said which jobs are to be stepped over, also behind the claims that stepped over them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_jobs_beside_a_held_snapshot_do_not_count() {
    for keyed in [false, true] {
        let fixture = Fixture::shared().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        let (client, other) = (fixture.sql().await, fixture.sql().await);
        if keyed {
            client
                .execute(&fixture.text("SELECT windlass.limit_keys('q', concurrency => 5)"), &[])
                .await
                .unwrap();
        }
        bulk(&fixture, &client, 60_000).await;
        claim_pages(&fixture, &client, &worker).await; // of a keyed queue it may only read ahead
        let before = check(&fixture, &client, &worker, 10, "before").await;
        other
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()")
            .await
            .unwrap();
        let first = "INSERT INTO windlass.cancelled_in_log (job_id, lane_id, xid)
             SELECT j.id, j.lane_id, j.xid FROM windlass.job j ORDER BY j.id OFFSET 5000 LIMIT 50000";
        client.batch_execute(&fixture.text(first)).await.unwrap();
        let claim = format!("SELECT * FROM windlass.claim({}, ARRAY['q'], ARRAY[1000])", worker.id);
        let left = fixture.text("SELECT count(*) FROM windlass.cancelled_in_log");
        while client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            fixture.rows_and_pages(&client, &claim).await;
        }
        let after = check(&fixture, &client, &worker, 10, "after").await;
        println!("keyed: {keyed}, {before} and {after} pages");
        assert!(after <= before + 150, "keyed: {keyed}, {before} pages before, {after} after");
    }
}

/// What a claim reads is cut at each transaction that is open and may have written jobs: a probe of each leaf for each of them, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_cost_a_probe_each_once() {
    const WRITERS: usize = 60;
    let fixture = Fixture::with_a_crowd().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let client = fixture.sql().await;
    bulk(&fixture, &client, 30).await;
    let alone = check(&fixture, &client, &worker, 10, "nobody writes").await;
    let late = fixture.text("BEGIN; INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES ((SELECT windlass.lane_of('q', 0)), 'k', '{}')");
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let writer = fixture.sql().await;
        writer.batch_execute(&late).await.unwrap();
        writers.push(writer);
        bulk(&fixture, &client, 1).await;
    }
    let claim =
        format!("SELECT * FROM windlass.claim({}, ARRAY['q'], ARRAY[1000]) WHERE id IS NOT NULL", worker.id);
    let (rows, pages) = fixture.rows_and_pages(&client, &claim).await;
    println!("{alone} pages alone, {pages} beside {WRITERS} open transactions");
    assert_eq!(rows, WRITERS, "what was committed between them");
    assert!(
        pages <= alone + 60 * WRITERS as i64,
        "{pages} pages beside {WRITERS} open transactions, {alone} without"
    );
    bulk(&fixture, &client, 30).await;
    let beside = check(&fixture, &client, &worker, 10, "beside them").await;
    assert!(beside <= alone + 60, "{beside} pages beside {WRITERS} open transactions, {alone} without");
    for writer in &writers {
        writer.batch_execute("COMMIT").await.unwrap();
    }
    let (rows, pages) = fixture.rows_and_pages(&client, &claim).await;
    assert_eq!(rows, WRITERS, "what was committed late");
    assert!(pages <= alone + 60 * WRITERS as i64, "{pages} pages when {WRITERS} have ended, {alone} without");
}
