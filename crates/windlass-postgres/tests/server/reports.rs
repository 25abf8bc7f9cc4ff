//! Reports where they are rows: housekeeping removes those of jobs that are gone and no other, a move to another cluster and
//! roles keep what they should, and none of it costs more in deep tables.

use crate::cluster::{Fixture, WITHOUT_EVENTS, WITHOUT_LIMITS, connect};
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Client, error::SqlState};
use windlass_conformance::steps::{
    Held, KEEP_NOTHING, LATER, QUEUE, TestWorker, enqueue, eventually, job, maintain_with, record, worker,
    worker_on,
};
use windlass_core::{
    Args, Disposition, ErrorKind, JobId, JobReport, JobState, LogEntry, Progress, ReportRequest, Reported,
    Store,
};
use windlass_postgres::{Access, PostgresStore};

fn report(held: &Held, number: u64) -> JobReport {
    JobReport {
        claim: held.claim,
        job: held.job.id,
        position: held.job.position,
        attempt: held.job.attempt,
        number,
        progress: Some(Progress::from((40.0, "page 4"))),
        checkpoint: Args::of(&number).ok(),
        log: vec![LogEntry { age: Duration::ZERO, text: "a line".into() }],
        dropped: 0,
    }
}

async fn say(worker: &TestWorker, held: &Held) {
    let request = ReportRequest { worker: worker.id, reports: vec![report(held, 1)] };
    assert_eq!(worker.store.report(&request).await.expect("report"), [Reported::Accepted]);
}

struct Table {
    fixture: Fixture,
    client: Client,
}

impl Table {
    async fn of(fixture: Fixture) -> Self {
        let client = fixture.sql().await;
        Self { fixture, client }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    async fn pages(&self, call: &str) -> i64 {
        self.fixture.pages(&self.client, &format!("SELECT * FROM {call}")).await
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(&self.fixture.text(sql), &[]).await.expect(sql).get(0)
    }

    /// Has housekeeping look at every row now, and tells which jobs still have one.
    async fn left(&self) -> Vec<i64> {
        self.run("UPDATE windlass.job_report SET check_at = '-infinity'").await;
        // Asked for more than there are, it says so only when its time was over.
        while self.number("SELECT windlass.forget_reports(1000)").await == 1000 {}
        assert_eq!(self.number("SELECT windlass.forget_reports(1000)").await, 0, "each is looked at once");
        let ids = self.fixture.text("SELECT job_id FROM windlass.job_report ORDER BY job_id");
        self.client.query(&ids, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

/// What the next attempt may need, or somebody may read, stays wherever its job is; the rest goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn housekeeping_removes_those_of_jobs_that_are_gone() {
    let table = Table::of(Fixture::shared().await).await;
    let store: Arc<dyn Store> = Arc::new(table.fixture.store().await);
    let worker = worker_on(&store).await;
    let mut ids = Vec::new();
    let mut held = Vec::new();
    for _ in 0..8 {
        ids.push(enqueue(&store, job()).await.0);
        held.push(worker.take_one().await);
    }
    for held in &held {
        say(&worker, held).await;
    }
    // Running: 0. In the log, unclaimed: 1. Claimed anew by somebody who says nothing: 2. The others wait or ended.
    let retry = |delay| Disposition::Retry { delay, error: "no".into() };
    worker.except(&held[3], retry(LATER)).await;
    worker.except(&held[4], Disposition::NoHandler).await;
    worker.except(&held[5], Disposition::Discard { error: "bad".into(), failed: true }).await;
    worker.complete(&held[6]).await;
    worker.except(&held[2], Disposition::Return).await;
    let other = windlass_conformance::steps::worker(&store, &[QUEUE], &["noop"], LATER).await;
    let again = other.take(2).await;
    assert_eq!(again.iter().map(|held| held.job.id.0).collect::<Vec<_>>(), [ids[4], ids[2]]);
    other.except(&again[0], Disposition::NoHandler).await;
    worker.except(&held[1], Disposition::Return).await;
    worker.except(&held[7], Disposition::Return).await;
    store.delete(&[JobId(ids[7])]).await.expect("delete");
    assert_eq!(table.left().await, ids[..7]);

    // Completed ones go with their segment, also when nothing is said of them in the last attempt.
    other.complete(&again[1]).await;
    assert_eq!(table.left().await, ids[..7]);
    eventually("the history is removed", || async {
        maintain_with(&store, KEEP_NOTHING).await;
        let gone = async |id| store.job(JobId(id)).await.expect("look up").is_none();
        (gone(ids[6]).await && gone(ids[2]).await).then_some(())
    })
    .await;
    let kept = [ids[0], ids[1], ids[3], ids[4], ids[5]];
    assert_eq!(table.left().await, kept);
    assert_eq!(record(&store, JobId(ids[0])).await.state, JobState::Running);
    // A round does it by itself, once it is time.
    maintain_with(&store, KEEP_NOTHING.with_dead_retention(Duration::ZERO)).await;
    assert_eq!(table.number("SELECT count(*) FROM windlass.job_report").await, 4, "of the dead at once");
    // Where the log came from elsewhere and is not in order yet, every job seems to be gone.
    table.run("UPDATE windlass.job_report SET check_at = '-infinity'; DELETE FROM windlass.home").await;
    table.run("INSERT INTO windlass.home (xid, system) VALUES ('3', 1)").await;
    assert_eq!(table.number("SELECT windlass.forget_reports(1000)").await, 0);
    assert_eq!(table.number("SELECT windlass.rehome()").await, 2, "those that ran or were available");
    assert_eq!(table.left().await, [ids[0], ids[1], ids[3], ids[4]]);
}

/// A restored dump has checkpoints of jobs that nobody knows of there; no new job gets the id of one.
#[tokio::test]
async fn ids_of_reports_are_not_given_again() {
    let table = Table::of(Fixture::shared().await).await;
    table
        .run(
            "INSERT INTO windlass.job_report (job_id, check_at, worker_id) VALUES (1000000, now(), 5000);
             SELECT windlass.advance_sequences()",
        )
        .await;
    let store: Arc<dyn Store> = Arc::new(table.fixture.store().await);
    assert!(enqueue(&store, job()).await.0 > 1_000_000);
    assert!(worker_on(&store).await.id.0 > 5_000);
}

/// A worker's role reports and reads checkpoints, a viewer's reads what was said, also in SQL; no other does.
#[tokio::test]
async fn roles_may_what_they_need() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("worker", &[Access::Worker]).await;
    let store: Arc<dyn Store> =
        Arc::new(PostgresStore::connect(&url, fixture.options.clone()).await.expect("connects"));
    let owner: Arc<dyn Store> = Arc::new(fixture.store().await);
    let id = enqueue(&owner, job()).await;
    let worker = worker_on(&store).await;
    say(&worker, &worker.take_one().await).await;
    let last = store.checkpoints(&[id]).await.expect("checkpoints");
    assert_eq!(last[0].as_ref().map(Args::as_str), Some("1"));
    store.maintain().await.expect("housekeeping");

    let url = fixture.role("viewer", &[Access::Viewer]).await;
    let viewer: Arc<dyn Store> =
        Arc::new(PostgresStore::connect(&url, fixture.options.clone()).await.expect("connects"));
    assert_eq!(record(&viewer, id).await.report.expect("a report").log[0].text, "a line");
    let client = connect(url.split('?').next().unwrap()).await;
    let look = fixture.text(
        "SELECT concat_ws(' ', percent, note, attempt, checkpoint, log -> 0 ->> 'text', log_dropped) FROM windlass.progress($1)",
    );
    assert_eq!(
        client.query_one(&look, &[&id.0]).await.unwrap().get::<_, String>(0),
        "40 page 4 1 1 a line 0"
    );
    for refused in ["SELECT windlass.checkpoints('{1}')", "UPDATE windlass.job_report SET percent = 1"] {
        let error = client.batch_execute(&fixture.text(refused)).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}: {error}");
    }
    let url = fixture.role("producer", &[Access::Producer]).await;
    let client = connect(url.split('?').next().unwrap()).await;
    let error = client.query(&look, &[&id.0]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error}");
}

/// On a schema of an older program a checkpoint is refused with what to do; all else works. The migration brings the rest.
#[tokio::test]
async fn an_older_schema_is_worked_on_and_migrated() {
    let table = Table::of(Fixture::shared().await).await;
    table
        .run(
            "DROP TABLE windlass.job_report; DROP FUNCTION windlass.report; DROP FUNCTION windlass.checkpoints;
             DROP FUNCTION windlass.progress; DROP FUNCTION windlass.forget_reports; DROP FUNCTION windlass.log_with;
             DROP TABLE windlass.schedule CASCADE;
             DELETE FROM windlass.migration WHERE version > 6",
        )
        .await;
    // As version 6 had it.
    table
        .run(
            "CREATE OR REPLACE FUNCTION windlass.forget_dead(p_most integer) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        )
        .await;
    let store: Arc<dyn Store> = Arc::new(table.fixture.store().await);
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    let request = ReportRequest { worker: worker.id, reports: vec![report(&held, 1)] };
    for error in [store.report(&request).await.unwrap_err(), store.checkpoints(&[id]).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::SchemaTooOld);
        assert!(error.to_string().contains("run `windlass migrate`"), "{error}");
    }
    assert!(record(&store, id).await.report.is_none());
    store.maintain().await.expect("housekeeping");
    // What came after version 7 makes its own.
    table.run(WITHOUT_LIMITS).await;
    table.run(WITHOUT_EVENTS).await;
    table.run("DROP TABLE windlass.retention_rule, windlass.retention_pass, windlass.counter, windlass.counter_fold").await;
    let migrated = store.migrate().await.expect("migrates");
    assert!(migrated.from == 6 && migrated.to >= 7, "{migrated:?}");
    say(&worker, &held).await;
    assert!(record(&store, id).await.report.is_some());
}

/// Each call costs what it is about, whatever the log and the table hold; plans that were made while they were empty as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_cost_the_same_in_deep_tables() {
    let deep: i64 =
        std::env::var("WINDLASS_TEST_DEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let table = Table::of(Fixture::shared().await).await;
    let store: Arc<dyn Store> = Arc::new(table.fixture.store().await);
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    table.run("SELECT windlass.checkpoints('{1}'), windlass.forget_reports(10)").await;
    for round in 0..2 {
        enqueue(&store, job()).await;
        let held = worker.take_one().await;
        let claim = "(SELECT k FROM windlass.claim k WHERE job_count > 0 ORDER BY worker_call DESC LIMIT 1)";
        let call = |jobs: &str, xids: &str, n: usize| {
            let each = |value: &str| format!("array_fill({value}, ARRAY[{n}])");
            format!(
                "windlass.report({}, {}, {}, {}, {jobs}, {xids}, {}, {}, {}, {}, {}, {}, ARRAY[1], ARRAY[0.1], ARRAY['a'])",
                worker.id,
                each(&format!("({claim}).lane_id")),
                each(&format!("({claim}).seq")),
                each(&format!("({claim}).token")),
                each("1::bigint"),
                each("1::smallint"),
                each("5::double precision"),
                each("'note'::text"),
                each("'1'::json"),
                each("0::bigint"),
            )
        };
        let one = call(
            &format!("ARRAY[{}::bigint]", held.job.id),
            &format!("ARRAY[{}::bigint]", held.job.position),
            1,
        );
        assert_eq!(
            table
                .number(&format!("SELECT cardinality(array_positions(r, true)) + 0::bigint FROM {one} AS r"))
                .await,
            1
        );
        for (call, most) in [
            (one, 600),
            (format!("windlass.checkpoints('{{{0}, {0}}}')", held.job.id), 40),
            (format!("windlass.progress({})", held.job.id), 30),
            ("windlass.forget_reports(100)".to_owned(), 40),
        ] {
            let touched = table.pages(&call).await;
            assert!(touched <= most, "round {round}: {call} touched {touched} pages");
        }
        worker.complete(&held).await;
        if round == 0 {
            table
                .run(&format!(
                    "SET synchronous_commit = off;
                     INSERT INTO windlass.job_0 (lane_id, kind, args)
                         SELECT (SELECT windlass.lane_of('deep', 0)), 'k', '{{}}' FROM generate_series(1, {deep});
                     INSERT INTO windlass.job_report (job_id, check_at, worker_id, lane_id, seq, log)
                         SELECT n + 100000000, now() + interval '1 day', 1, 1, n, '[]' FROM generate_series(1, {deep}) AS n"
                ))
                .await;
        }
    }
    // Of rows that are due, those that are asked for are looked at.
    table.run("UPDATE windlass.job_report SET check_at = '-infinity' WHERE job_id % 100 = 0").await;
    let touched = table.pages("windlass.forget_reports(100)").await;
    assert!(touched <= 100 * 150, "{touched} pages for 100 rows");
}

/// A late report of a job that somebody deletes waited for the end of that transaction, and with it what all other handlers of the worker said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_deletes_a_job_keeps_no_report_waiting() {
    let table = Table::of(Fixture::fresh().await).await;
    let store: Arc<dyn Store> = Arc::new(table.fixture.store().await);
    let worker = worker_on(&store).await;
    store.enqueue(&[job(), job()]).await.unwrap();
    let held = worker.take(2).await;
    say(&worker, &held[0]).await;
    worker.except(&held[0], Disposition::Retry { delay: LATER, error: "no".into() }).await;
    table.run(&format!("BEGIN; SELECT windlass.delete({})", held[0].job.id)).await;
    let request =
        ReportRequest { worker: worker.id, reports: held.iter().map(|held| report(held, 2)).collect() };
    let reported = store.report(&request).await.expect("nobody is waited for");
    assert_eq!(reported, [Reported::Refused, Reported::Accepted]);
    table.run("COMMIT").await;
    assert_eq!(table.number("SELECT count(*) FROM windlass.job_report").await, 1);
}
