//! A page of jobs looks at what became of a claim once, not for each of its jobs: beside workers at full speed nearly all of what is claimed is settled.

use crate::session::Session;
use std::sync::Arc;
use windlass_conformance::steps::{Held, TestWorker, worker_on};
use windlass_core::{Completion, Disposition, JobSet, Store};

/// How many of a claim fail, one by one.
const FAILED: usize = 500;

/// A claim of so many jobs, of which some failed, each by itself, most completed in two ranges around one that failed, and ten run on.
async fn mostly_settled(worker: &TestWorker, size: usize) {
    let held = worker.take(size).await;
    let (failed, held) = held.split_at(FAILED);
    let (running, completed) = held.split_at(10);
    let (before, after) = completed.split_at(completed.len() / 2);
    let range = |jobs: &[Held]| {
        let ids = || jobs.iter().map(|held| held.job.id.0);
        let jobs = JobSet::Ranges(vec![(ids().min().expect("some"), ids().max().expect("some"))]);
        Completion { claim: running[0].claim, jobs, count: 1 }
    };
    let no = || Disposition::Retry { delay: std::time::Duration::from_secs(3600), error: "no".into() };
    let exceptions = failed.iter().chain(&after[..1]).map(|held| held.exception(no())).collect();
    worker.settle(vec![range(before), range(&after[1..])], exceptions).await;
}

/// The jobs in this state, page by page, ordered.
async fn listed(session: &Session, state: &str) -> Vec<i64> {
    let sql = format!(
        "WITH RECURSIVE page AS (
            SELECT array_agg((l.job).id) FILTER (WHERE l.next IS NULL) AS ids, max(l.next) AS next FROM windlass.list_jobs('{state}', NULL, NULL, NULL, 700) AS l
            UNION ALL
            SELECT n.ids, n.next FROM page p CROSS JOIN LATERAL (
                SELECT array_agg((l.job).id) FILTER (WHERE l.next IS NULL) AS ids, max(l.next) AS next FROM windlass.list_jobs('{state}', NULL, NULL, p.next, 700) AS l) AS n
            WHERE p.next IS NOT NULL)
        SELECT array_agg(id ORDER BY id) FROM page CROSS JOIN LATERAL unnest(page.ids) AS id"
    );
    session.value(&sql).await
}

#[tokio::test]
async fn a_page_looks_once_at_what_became_of_a_claim() {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    session
        .run(
            "INSERT INTO windlass.job (lane_id, kind, args)
             SELECT l.lane, 'k', '{}' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, 20000)",
        )
        .await;
    let worker = worker_on(&store).await;
    for _ in 0..4 {
        mostly_settled(&worker, 5_000).await;
    }
    for state in ["running", "completed"] {
        let expected: Vec<i64> = session
            .value(&format!("SELECT array_agg(id ORDER BY id) FROM windlass.jobs WHERE state = '{state}'"))
            .await;
        assert_eq!(listed(&session, state).await, expected, "{state}");
    }
    // With three probes for each job they were 400,000 pages and more. Nothing else runs, so all claims are read.
    session
        .bounded("20,000 jobs are claimed", "windlass.list_jobs('running', NULL, NULL, NULL, 100)", 30_000)
        .await;
    session
        .bounded("they mostly completed", "windlass.list_jobs('completed', NULL, 'no', NULL, 100)", 30_000)
        .await;
    session.bounded("so they did", "windlass.list_jobs('completed', NULL, NULL, NULL, 100)", 10_000).await;
}

/// As of workers at full speed, whose batches end by ranges: each claim counts as open until a settlement says that it names the rest.
#[tokio::test]
async fn jobs_of_claims_that_are_over_are_not_read() {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    session
        .run(
            "INSERT INTO windlass.job (lane_id, kind, args)
             SELECT l.lane, 'k', '{}' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, 21000)",
        )
        .await;
    let worker = worker_on(&store).await;
    let range = |jobs: &[Held]| Completion {
        claim: jobs[0].claim,
        jobs: JobSet::Ranges(vec![(jobs[0].job.id.0, jobs[jobs.len() - 1].job.id.0)]),
        count: u32::try_from(jobs.len()).expect("a few"),
    };
    // Of the last, one job in the middle runs on, and of the one before it one that was settled twice, too.
    let mut left = Vec::new();
    for claim in 0..21 {
        let held = worker.take(1_000).await;
        let mut done = vec![range(&held[..500]), range(&held[500..])];
        match claim {
            19 => done = vec![range(&held[..600]), range(&held[500..999])],
            20 => done = vec![range(&held[..500]), range(&held[501..])],
            _ => {}
        }
        left.extend(match claim {
            19 => Some(held[999].job.id.0),
            20 => Some(held[500].job.id.0),
            _ => None,
        });
        for part in done {
            worker.settle(vec![part], vec![]).await;
        }
    }
    assert_eq!(listed(&session, "running").await, left);
    // Jobs of the two claims, which are fetched twice; of all claims they were 42,000.
    let read = "WITH listed AS MATERIALIZED (SELECT count(*) AS jobs FROM windlass.list_jobs('running', NULL, NULL, NULL, 100))
        SELECT sum(pg_stat_get_xact_tuples_fetched(c.oid))::bigint FROM listed l, pg_class c
        WHERE c.relname ~ '^job_[0-9]+_' AND c.relkind = 'i' AND l.jobs = 2";
    let read = session.value::<i64>(read).await;
    assert!((1..=4_200).contains(&read), "{read} jobs were read");
}

/// Of a bulk cancellation, which claims have not stepped over yet.
#[tokio::test]
async fn what_is_to_be_stepped_over_is_not_walked() {
    let session = Session::fresh().await;
    session
        .run(
            "INSERT INTO windlass.job (lane_id, kind, args)
             SELECT l.lane, 'k', '{}' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, 60000);
             INSERT INTO windlass.cancelled_in_log (job_id, lane_id, xid) SELECT j.id, j.lane_id, j.xid FROM windlass.job j",
        )
        .await;
    // A claim has to step over them, but nobody has to come for that.
    assert!(!session.value::<bool>("SELECT windlass.available_now('{q}', '{}')").await);
    session.bounded("60,000 jobs are cancelled", "windlass.available_now('{q}', '{}')", 5_000).await;
    let list = "windlass.list_jobs('available', NULL, NULL, NULL, 100)";
    session.bounded("60,000 jobs are cancelled", list, 50_000).await;
    session.run("DELETE FROM windlass.cancelled_in_log WHERE job_id < (SELECT max(job_id) - 16 * 50 FROM windlass.cancelled_in_log)").await;
    session.run("DELETE FROM windlass.job WHERE id < (SELECT max(id) - 16 * 50 FROM windlass.job)").await;
    assert!(
        !session.value::<bool>("SELECT windlass.available_now('{q}', '{}')").await,
        "fifty are looked at"
    );
}

/// Who asks whether there is work does so often, beside heartbeats whose versions an open snapshot keeps.
#[tokio::test]
async fn a_look_for_work_reads_no_worker() {
    let session = Session::fresh().await;
    for _ in 0..20 {
        session.register("'{q}'").await;
    }
    let reader = session.fixture.sql().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for _ in 0..100 {
        session.run("UPDATE windlass.worker SET heartbeat_at = clock_timestamp()").await;
    }
    session.bounded("2,000 heartbeats are kept", "windlass.available_now('{none}', '{}')", 20).await;
    reader.batch_execute("ROLLBACK").await.unwrap();
}
