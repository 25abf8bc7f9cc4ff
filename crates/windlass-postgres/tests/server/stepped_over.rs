//! Jobs that were cancelled, edited or deleted where they stand in the log leave rows there, which claims step over. Until then nothing counts them.

use crate::session::Session;
use std::sync::Arc;
use windlass_conformance::steps::{TestWorker, enqueue_jobs, worker_on};
use windlass_core::{JobId, Store};

const AT_ONCE: &str = "SET statement_timeout = '400ms'";

/// So many jobs of queue q, which a purge has removed.
async fn purged(session: &Session, jobs: usize) {
    session
        .run(&format!(
            "INSERT INTO windlass.job (lane_id, kind, args)
             SELECT l.lane, 'noop', '{{}}' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, {jobs});
             INSERT INTO windlass.cancelled_in_log (job_id, lane_id, xid) SELECT j.id, j.lane_id, j.xid FROM windlass.job j"
        ))
        .await;
}

/// What a claim for ten jobs of queue q hands out, and whether another may have more at once.
async fn claim(session: &Session, worker: &TestWorker) -> (Vec<i64>, bool) {
    let sql = format!(
        "SELECT coalesce(array_agg(id) FILTER (WHERE id IS NOT NULL), '{{}}'), coalesce(bool_or(head[1] = 0), false)
         FROM windlass.claim({}, ARRAY['q'], ARRAY[10])",
        worker.id
    );
    let row = session.row(&sql).await;
    (row.get(0), row.get(1))
}

/// The jobs of which events say that they were started.
async fn started(session: &Session) -> Vec<i64> {
    let (mut cursor, mut ids) = ("start".to_owned(), Vec::new());
    loop {
        let page = "SELECT max(cursor) FILTER (WHERE job_id IS NULL), array_agg(job_id) FILTER (WHERE job_id IS NOT NULL), bool_or(more)";
        let row =
            session.row(&format!("{page} FROM windlass.events('{cursor}', types => '{{started}}')")).await;
        cursor = row.get(0);
        ids.extend(row.get::<_, Option<Vec<i64>>>(1).into_iter().flatten());
        if !row.get::<_, bool>(2) {
            return ids;
        }
    }
}

/// A claim that steps over all of a purge would take longer than a call may, and then come to nothing, as would the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_get_past_a_purge_part_by_part() {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let worker = worker_on(&store).await;
    purged(&session, 30_000).await;
    let id = enqueue_jobs(&store, 1).await[0];
    session.run(AT_ONCE).await;
    let mut claims = 0;
    loop {
        let (ids, more) = claim(&session, &worker).await;
        claims += 1;
        if !ids.is_empty() {
            assert_eq!(ids, [id.0]);
            break;
        }
        assert!(more && claims < 1_000, "after {claims} claims");
    }
    assert!(claims > 1, "a claim took all of it");
    assert_eq!(session.value::<i64>("SELECT count(*) FROM windlass.cancelled_in_log").await, 0);
    assert_eq!(started(&session).await, [id.0], "what was stepped over was not started");
    let counted = "SELECT completed FROM windlass.queues WHERE name = 'q' AND estimates = '{}'";
    assert_eq!(session.value::<i64>(counted).await, 0, "exact, however many were stepped over");
    assert_eq!(claim(&session, &worker).await, (vec![], false));
}

/// What the figures of queue q say, and what the view of all jobs does. An estimate of none is none.
async fn compare(session: &Session, is_estimate: bool, when: &str) {
    let figures = "SELECT available, oldest_available_at::text FROM windlass.queues WHERE name = 'q'";
    let jobs = "SELECT count(*), min(enqueued_at)::text FROM windlass.jobs WHERE queue = 'q' AND state = 'available'";
    let read = async |sql: &str| {
        let row = session.row(sql).await;
        (row.get::<_, i64>(0), row.get::<_, Option<String>>(1))
    };
    let (said, is) = (read(figures).await, read(jobs).await);
    let off = if is_estimate && is.0 > 0 { 10 + is.0 / 10 } else { 0 };
    assert!((said.0 - is.0).abs() <= off, "{when}: {said:?} {is:?}");
    assert_eq!(said.1, is.1, "{when}");
    let any = session.value::<bool>("SELECT windlass.available_now('{q}', '{}')").await;
    assert_eq!(any, is.0 > 0, "{when}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_be_stepped_over_is_in_no_figure() {
    for (jobs, when) in [(3, "a few"), (3_000, "three times what is counted exactly")] {
        let session = Session::fresh().await;
        // With so many lanes counts are exact up to 1,000 rows.
        session
            .run("INSERT INTO windlass.lane (queue, priority) SELECT 'x' || n, 0 FROM generate_series(1, 1000) AS n")
            .await;
        let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
        let ids = enqueue_jobs(&store, jobs).await;
        compare(&session, jobs > 1_000, &format!("{when}, enqueued")).await;
        store.cancel(&ids[..jobs - 1]).await.unwrap();
        compare(&session, jobs > 1_000, &format!("{when}, all but the last one cancelled")).await;
        store.delete(&ids).await.unwrap();
        compare(&session, jobs > 1_000, &format!("{when}, deleted")).await;
        let later: Vec<JobId> = enqueue_jobs(&store, 2).await;
        compare(&session, jobs > 1_000, &format!("{when}, two more enqueued")).await;

        let worker = worker_on(&store).await;
        let held = worker.take_when_due(2).await;
        assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), later);
        compare(&session, jobs > 1_000, &format!("{when}, none left")).await;
    }
}
