//! Timings on PostgreSQL: putting rows together, what that costs, and who may.

use crate::cluster::Fixture;
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::{
    ErrorKind, Failure, FailureGroup, Histogram, JobId, JobStore, Timing, TimingRequest, TimingStore,
};
use windlass_postgres::PostgresStore;

const DAY: Duration = Duration::from_secs(86_400);

async fn run(fixture: &Fixture, sql: &Client, text: &str) {
    sql.batch_execute(&fixture.text(text)).await.expect(text);
}

async fn number(fixture: &Fixture, sql: &Client, text: &str) -> i64 {
    sql.query_one(&fixture.text(text), &[]).await.expect(text).get(0)
}

fn timing(kind: &str, ms: u64) -> Timing {
    let mut timing = Timing::new("q", kind);
    timing.run.add(Duration::from_millis(ms), 2);
    timing.wait.add(Duration::from_millis(ms * 7), 1);
    timing.failures.push(Failure::new(kind, JobId(ms.cast_signed()), &format!("error {kind} after {ms} ms")));
    timing
}

/// All that is stored, whatever its time.
async fn sums(store: &PostgresStore) -> (Histogram, Histogram, Vec<FailureGroup>) {
    let request = TimingRequest::last(30 * DAY);
    let (mut wait, mut run) = (Histogram::default(), Histogram::default());
    for timed in store.timings(&request).await.unwrap().timed {
        wait.merge(&timed.wait);
        run.merge(&timed.run);
    }
    (wait, run, store.failures(&request).await.unwrap())
}

/// Rows of one minute become one for each queue and kind, later those of a quarter of an hour, and nothing of what they say is lost.
#[tokio::test]
async fn rows_are_put_together() {
    let fixture = Fixture::fresh().await;
    let (store, sql) = (fixture.store().await, fixture.sql().await);
    for n in 0..40 {
        store.measure(&[timing("a", n + 1), timing("b", 900 + n)]).await.unwrap();
    }
    run(&fixture, &sql, "UPDATE windlass.timing SET at = date_trunc('hour', at) - interval '2 hours' + (random() > 0.5)::integer * interval '1 minute'").await;
    run(&fixture, &sql, "UPDATE windlass.failure SET at = date_trunc('hour', at) - interval '2 hours'").await;
    let (wait, ran, failures) = sums(&store).await;
    assert_eq!((ran.count(), wait.count(), failures.len()), (160, 80, 2));
    let rows = "SELECT count(*) FROM windlass.timing";
    assert_eq!(number(&fixture, &sql, rows).await, 80);
    store.maintain().await.unwrap();
    assert_eq!(number(&fixture, &sql, rows).await, 4);
    assert_eq!(number(&fixture, &sql, "SELECT count(*) FROM windlass.failure").await, 2);
    assert_eq!(number(&fixture, &sql, "SELECT sum(n)::bigint FROM windlass.timing").await, 160);
    let unchanged = |(w, r, f): (Histogram, Histogram, Vec<FailureGroup>)| {
        let said = |groups: &[FailureGroup]| -> Vec<_> {
            groups
                .iter()
                .map(|group| (group.fingerprint.clone(), group.sample.clone(), group.count, group.last_job))
                .collect()
        };
        assert_eq!((w, r, said(&f)), (wait.clone(), ran.clone(), said(&failures)));
    };
    unchanged(sums(&store).await);
    // Six hours later.
    run(&fixture, &sql, "UPDATE windlass.timing SET at = at - interval '6 hours'; UPDATE windlass.failure SET at = at - interval '6 hours'").await;
    store.maintain().await.unwrap();
    assert_eq!(number(&fixture, &sql, rows).await, 2);
    unchanged(sums(&store).await);
    // And a month.
    run(&fixture, &sql, "UPDATE windlass.timing SET at = at - interval '30 days'; UPDATE windlass.failure SET at = at - interval '30 days'").await;
    store.maintain().await.unwrap();
    assert_eq!(
        number(
            &fixture,
            &sql,
            "SELECT (SELECT count(*) FROM windlass.timing) + (SELECT count(*) FROM windlass.failure)"
        )
        .await,
        0
    );
}

/// A program that makes up names of kinds and of errors does not fill the store.
#[tokio::test]
async fn many_kinds_and_causes_are_few_rows() {
    let fixture = Fixture::fresh().await;
    let (store, sql) = (fixture.store().await, fixture.sql().await);
    for n in 0..10 {
        let mut timings: Vec<_> = (0..64_u64).map(|k| timing(&format!("k{}", n * 64 + k), k + 1)).collect();
        for timing in &mut timings {
            let words = |m: u8| format!("{} {}", timing.kind, "x".repeat(usize::from(m)));
            timing.failures = (0..20).map(|m| Failure::new(&timing.kind, JobId(1), &words(m))).collect();
        }
        store.measure(&timings).await.unwrap();
    }
    let (_, ran, _) = sums(&store).await;
    run(&fixture, &sql, "UPDATE windlass.timing SET at = date_trunc('hour', at) - interval '1 hour'; UPDATE windlass.failure SET at = date_trunc('hour', at) - interval '1 hour'").await;
    let failed = "SELECT sum(n)::bigint FROM windlass.failure";
    assert_eq!(number(&fixture, &sql, failed).await, 12_800);
    store.maintain().await.unwrap();
    assert_eq!(number(&fixture, &sql, "SELECT count(*) FROM windlass.timing").await, 251);
    assert_eq!(number(&fixture, &sql, "SELECT count(*) FROM windlass.failure").await, 251);
    assert_eq!(number(&fixture, &sql, failed).await, 12_800);
    assert_eq!(sums(&store).await.1, ran);
}

/// A schema of before takes measurements and keeps none, and says why it has none.
#[tokio::test]
async fn an_older_schema_keeps_none() {
    let fixture = Fixture::fresh().await;
    let (store, sql) = (fixture.store().await, fixture.sql().await);
    run(&fixture, &sql, "DROP TABLE windlass.no_handler; DROP TRIGGER no_handler ON windlass.waiting; ALTER TABLE windlass.waiting DROP COLUMN xid; ALTER TABLE windlass.worker DROP COLUMN beat, DROP COLUMN draining_at, DROP COLUMN program, DROP COLUMN app_version, DROP COLUMN engine, DROP COLUMN memory_bytes, DROP COLUMN jobs_per_second; DROP TABLE windlass.came_back; DROP FUNCTION IF EXISTS windlass.mark_deploys; ALTER TABLE windlass.cancelled_in_log DROP COLUMN xid; DROP TABLE windlass.timing, windlass.failure, windlass.timing_kept CASCADE;
        DROP FUNCTION IF EXISTS windlass.measure, windlass.keep_timings, windlass.join_timings; DELETE FROM windlass.migration WHERE version >= 20").await;
    store.measure(&[timing("a", 1)]).await.unwrap();
    store.maintain().await.unwrap();
    for error in [
        store.timings(&TimingRequest::last(DAY)).await.unwrap_err(),
        store.failures(&TimingRequest::last(DAY)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::SchemaTooOld);
        assert!(error.to_string().contains("windlass migrate"), "{error}");
    }
    store.migrate().await.unwrap();
    store.measure(&[timing("a", 1)]).await.unwrap();
    assert_eq!(sums(&store).await.1.count(), 2);
}

/// With 10^6 rows a call adds a few pages, a step of housekeeping looks at the rows that it is about, and reading an hour at those of the hour.
#[tokio::test]
async fn each_call_costs_what_it_is_about() {
    let fixture = Fixture::fresh().await;
    let sql = fixture.sql().await;
    let fill = |ago: &str, rows: u32| {
        format!(
            r#"INSERT INTO windlass.timing (at, n, queue, kind, wait, run)
            SELECT date_trunc('minute', now()) - interval '{ago}' - n / 50 * interval '1 minute', 2, 'q', 'k' || n % 50, '{{"30": 1}}', '{{"40": 2}}'
            FROM generate_series(1, {rows}) n"#
        )
    };
    run(&fixture, &sql, &fill("1 minute", 1_000_000)).await;
    run(&fixture, &sql, "UPDATE windlass.timing_kept SET minutes = now(), quarters = now()").await;
    run(&fixture, &sql, "ANALYZE windlass.timing").await;
    let idle = fixture.pages(&sql, "SELECT windlass.keep_timings(1000)").await;
    assert!(idle < 100, "{idle} pages without anything to do");
    let read =
        "SELECT count(*) FROM windlass.timing t WHERE t.at > (SELECT clock_timestamp() - interval '1 hour')";
    let hour = fixture.pages(&sql, read).await;
    assert!(hour < 500, "{hour} pages for 3,000 rows");
    let measured = r#"SELECT windlass.measure('[{"queue": "q", "kind": "a", "wait": {"3": 1}, "run": {"3": 1}, "failures": []}]')"#;
    let added = fixture.pages(&sql, measured).await;
    assert!(added < 100, "{added} pages to add a row");
    run(&fixture, &sql, &fill("31 days", 2_000)).await;
    let removed = fixture.pages(&sql, "SELECT windlass.keep_timings(1000)").await;
    assert!(removed < 6_000, "{removed} pages to remove a thousand rows");
    run(
        &fixture,
        &sql,
        "UPDATE windlass.timing_kept SET minutes = date_trunc('minute', now()) - interval '5 minutes'",
    )
    .await;
    let joined = fixture.pages(&sql, "SELECT windlass.keep_timings(1000)").await;
    assert!(joined < 1_000, "{joined} pages to put the 50 rows of a minute together");
}
