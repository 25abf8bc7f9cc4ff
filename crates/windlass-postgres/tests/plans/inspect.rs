//! Looking at jobs and queues costs the same few pages whatever the tables hold. The leaves of the log are never
//! analysed, so that without pinned plans each of these questions read the whole log.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::{cluster::Fixture, depth::deep, session::Session};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{KEEP_NOTHING, enqueue, eventually, job, rescue_of, worker, worker_on};
use windlass_core::{Disposition, JobStore, NewJob, Store, Unique};

async fn ids(session: &Session, sql: &str) -> Vec<i64> {
    let rows = session.client.query(&session.fixture.text(sql), &[]).await.expect(sql);
    rows.iter().map(|row| row.get(0)).collect()
}

async fn bounded(session: &Session, call: &str, most: i64) {
    session.bounded_undone("looking", call, most).await;
}

/// A row that a job's enqueue did not write says so: without that, lookups by id would read page after page in which
/// the job is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_jobs_that_came_back_are_marked() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let holder = worker_on(&store).await;

    let scheduled = enqueue(&store, job().with_delay(Duration::from_millis(1))).await;
    let held = holder.take_when_due(1).await.remove(0);
    holder.except(&held, Disposition::Return).await;
    let held = holder.take_one().await;
    holder.except(&held, Disposition::NoHandler).await;
    let held = holder.take_one().await;
    holder.except(&held, Disposition::Retry { delay: Duration::from_secs(3600), error: "no".into() }).await;
    store.retry(&[scheduled]).await.expect("retry");
    let held = holder.take_one().await;
    holder.except(&held, Disposition::Discard { error: "no".into(), failed: true }).await;
    store.retry(&[scheduled]).await.expect("retry");

    let lost = enqueue(&store, job().with_queue("b")).await;
    let dying = worker(&store, &["b"], &[], Duration::from_millis(1)).await;
    dying.take_one().await;
    rescue_of(&store, &dying, 5).await;

    let rows = client
        .query(&fixture.text("SELECT id, count(*) FILTER (WHERE NOT moved), count(*) FROM windlass.job GROUP BY id ORDER BY id"), &[])
        .await
        .unwrap();
    let rows: Vec<(i64, i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    // Promoted, returned, claimed past the log, retried twice; the other enqueued and rescued.
    assert_eq!(rows, [(scheduled.0, 0, 5), (lost.0, 1, 2)]);

    // A segment that is emptied leaves what is unfinished to another one.
    store.configure(&KEEP_NOTHING).await.expect("configure");
    eventually("the first segment is empty", || async {
        store.maintain().await.expect("maintain");
        let sql = fixture.text("SELECT pg_relation_size('windlass.job_0') = 0");
        client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
    let kept =
        client.query(&fixture.text("SELECT id, moved FROM windlass.job ORDER BY id"), &[]).await.unwrap();
    let kept: Vec<(i64, bool)> = kept.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(kept, [(scheduled.0, true), (lost.0, true)]);
    for id in [scheduled, lost] {
        assert!(store.job(id).await.expect("look up").is_some());
    }
}

/// Fills the log: one job in twenty was scheduled and comes back among later ones, half of all are completed, 1,000 run.
async fn fill(session: &Session, store: &Arc<dyn Store>, jobs: i64) {
    let batches = jobs / 10_000;
    session.run("SET synchronous_commit = off").await;
    session
        .run(&format!(
            "INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, kind, args)
             SELECT nextval('windlass.job_id_seq'), now() - interval '1 s', (SELECT windlass.lane_of('q', 0)), 20, 'late', '{{}}'
             FROM generate_series(1, {batches} * 500);
             INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, state, kind, args)
             SELECT nextval('windlass.job_id_seq'), now() + interval '1 day', (SELECT windlass.lane_of('q', 0)), 20,
                    CASE n % 4 WHEN 0 THEN 'retryable' ELSE 'scheduled' END, 'k', '{{}}'
             FROM generate_series(1, 200000) AS n;
             INSERT INTO windlass.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
             SELECT nextval('windlass.job_id_seq'), now(), (SELECT windlass.lane_of('q', 0)), 1, 20, 0,
                    CASE n % 4 WHEN 0 THEN 'discarded' ELSE 'cancelled' END, 'k', '{{}}'
             FROM generate_series(1, 200000) AS n"
        ))
        .await;
    session
        .run(&format!(
            "DO $$ BEGIN FOR n IN 1..{batches} LOOP
                 INSERT INTO windlass.job_0 (lane_id, kind, args)
                     SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{{}}' FROM generate_series(1, 10000);
                 PERFORM windlass.promote(500);
                 COMMIT;
             END LOOP; END $$"
        ))
        .await;
    let worker = worker_on(store).await;
    for _ in 0..jobs / 10_000 {
        let claims = worker.claim(5_000).await;
        worker.complete_claims(&claims).await;
    }
    worker.take(1_000).await;
    session.run("RESET synchronous_commit").await;
}

/// What each question may cost, in pages. The log of 10^6 jobs has some 12,000.
async fn check(session: &Session, known: &[i64]) {
    for setting in ["random_page_cost = 4", "random_page_cost = 1.1"] {
        session.run(&format!("SET {setting}")).await;
        for id in known.iter().chain(&[1, i64::MAX]) {
            for call in ["find_job", "job_record", "cancel", "retry"] {
                bounded(session, &format!("windlass.{call}({id})"), 600).await;
            }
        }
        // As who waits for many asks again and again: 150 pages for each, asked for one by one.
        for first in known {
            let some = format!("ARRAY(SELECT {first} + n * 7 FROM generate_series(0, 99) AS n)");
            bounded(session, &format!("windlass.ended_jobs({some})"), 6_000).await;
        }
    }
    let states =
        ["available", "running", "completed", "retryable", "scheduled", "discarded", "cancelled"].map(Some);
    for state in states.into_iter().chain([None]) {
        let state = state.map_or_else(|| "NULL".to_owned(), |state| format!("'{state}'"));
        // A claim is read whole, here 1,000 jobs: 1,719 pages of a log of 2 * 10^6.
        bounded(session, &format!("windlass.list_jobs({state}, NULL, NULL, NULL, 100)"), 2_000).await;
        bounded(session, &format!("windlass.list_jobs({state}, 'q', 'never', NULL, 100)"), 4_000).await;
        // A row counts as 5, so a page looks at a fifth as many, with some pages for each that has its errors looked up.
        bounded(
            session,
            &format!("windlass.list_jobs({state}, 'q', NULL, NULL, 100, p_args => '{{\"never\": 1}}')"),
            4_000,
        )
        .await;
        bounded(
            session,
            &format!("windlass.list_jobs({state}, 'q', NULL, NULL, 100, p_error => 'never')"),
            40_000,
        )
        .await;
    }
    // The index entries of the jobs that were promoted since the oldest open transaction began, here of another test, are walked.
    bounded(session, "windlass.available_now('{q}', '{}')", 1_000).await;
    bounded(session, "windlass.available_now('{none}', '{}')", 100).await;
    // Some 1,000 rows before and for each of 5 estimates, and as many probes for the completed ones: 6.7 ms at 10^7 jobs, all states deep, on a busy machine.
    bounded(session, "windlass.queues", 12_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_costs_the_same_whatever_the_tables_hold() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let session = &Session::of(fixture).await;
    check(session, &[]).await;
    enqueue(&store, NewJob::new("rare", windlass_conformance::steps::args(0)).with_queue("q")).await;
    check(session, &[1]).await;

    fill(session, &store, deep()).await;
    // Of every state, and of those that came back, from both ends.
    let known = ids(session, "(SELECT id FROM windlass.job WHERE moved LIMIT 1) UNION ALL (SELECT max(id) FROM windlass.job WHERE moved)
             UNION ALL (SELECT min(id) FROM windlass.waiting) UNION ALL (SELECT max(id) FROM windlass.dead)
             UNION ALL (SELECT max(id) FROM windlass.job) UNION ALL
             (SELECT id FROM windlass.job_0 WHERE NOT moved ORDER BY ctid OFFSET 300000 LIMIT 1)",
        )
        .await;
    assert_eq!(known.len(), 6);
    check(session, &known).await;

    // What a page does not reach, the next ones do.
    let queue = session.fixture.store().await.queues().await.expect("queues").remove(0);
    let near = |count: u64, expected: i64| (count as f64 / expected as f64 - 1.0).abs() < 0.1;
    let waits = deep() + deep() / 20 - deep() / 2 - 1_000 + 1;
    assert!(near(queue.available, waits), "{waits} are available: {queue:?}");
    assert!(near(queue.completed, deep() / 2), "{queue:?}");
    assert!(near(queue.scheduled, 150_000) && near(queue.retryable, 50_000), "{queue:?}");
    assert!(near(queue.cancelled, 150_000) && near(queue.discarded, 50_000), "{queue:?}");
    assert_eq!(queue.running, 1_000);

    // What was appended right before the log moved on is found as quickly.
    session
        .run(
            "INSERT INTO windlass.job_0 (lane_id, kind, args)
             SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{}' FROM generate_series(1, 100000);
             UPDATE windlass.ring SET segment = 1",
        )
        .await;
    let last = ids(session, "SELECT max(id) FROM windlass.job").await;
    bounded(session, &format!("windlass.job_record({})", last[0]), 400).await;
}

/// Several programs append at once, so that their rows stand mixed in the log, to two queues, under ids of which some are not in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_found_as_quickly_where_writers_mix_and_right_after_it_was_enqueued() {
    let fixture = Fixture::shared().await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        writers.spawn(async move {
            let mut ids = Vec::new();
            for n in 0..20 {
                // Of two queues, and the first job of one block is due later, so that it is not in the log.
                let named = |n: i32| job().with_queue(if n % 3 == 0 { "a" } else { "b" });
                let late = named(0).with_delay(Duration::from_secs(3600));
                let jobs: Vec<NewJob> =
                    (0..1_000).map(|n| if n == 512 { late.clone() } else { named(n) }).collect();
                ids.extend(store.enqueue(&jobs).await.expect("enqueue"));
                ids.push(enqueue(&store, job().with_queue("a")).await);
                // Under a key the ids keep the order of the jobs.
                let once =
                    store.enqueue_once(&format!("{writer} {n}"), &jobs[480..560]).await.expect("enqueue");
                ids.extend(once.ids);
                let unique: Vec<NewJob> = (n * 4..n * 4 + 40)
                    .map(|key| named(key).with_unique(Unique::by_key(key.to_string())))
                    .collect();
                ids.extend(store.enqueue_unique(&unique).await.expect("enqueue").iter().map(|job| job.id));
            }
            ids
        });
    }
    let ids: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    let session = &Session::of(fixture).await;
    // The log has some 1,000 pages. 4 leaves, 2 indexes, and the claims of the lane.
    for id in ids.iter().step_by(997).chain(&ids[ids.len() - 2..]) {
        bounded(session, &format!("windlass.find_job({id})"), 100).await;
    }
    let store = session.fixture.store().await;
    for id in ids.iter().step_by(37).chain(&ids[511..530]) {
        assert!(store.job(*id).await.expect("look up").is_some(), "{id}");
    }
}

/// Among 10,000 queues one costs what one costs, and the first page of all jobs has jobs: lanes in which nothing runs are not looked at for what
/// runs there.
#[tokio::test]
async fn one_queue_of_ten_thousand_costs_what_one_costs() {
    let session = &Session::fresh().await;
    session
        .run(
            "SELECT count(windlass.lane_of('q' || n, 0)) FROM generate_series(1, 10000) AS n;
             INSERT INTO windlass.job_0 (lane_id, kind, args) SELECT l.id, 'k', '{}' FROM windlass.lane l, generate_series(1, 10);
             ANALYZE windlass.lane, windlass.job_0",
        )
        .await;
    bounded(session, "windlass.queues WHERE name = 'q77'", 300).await;
    bounded(session, "windlass.queues WHERE name = ANY (ARRAY['q77', 'q78'])", 500).await;
    let page = "windlass.list_jobs(NULL, NULL, NULL, NULL, 100)";
    bounded(session, page, 4_000).await;
    let jobs = ids(session, &format!("SELECT (job).id FROM {page} WHERE (job).id IS NOT NULL")).await;
    assert_eq!(jobs.len(), 100);
}
