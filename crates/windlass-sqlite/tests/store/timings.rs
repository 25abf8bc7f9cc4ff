//! Putting together what workers measured.

use crate::fixture::Fixture;
use rusqlite::Connection;
use std::time::Duration;
use windlass_core::{Failure, Histogram, JobId, JobStore, Timing, TimingRequest, TimingStore};

const MINUTE: Duration = Duration::from_secs(60);

fn timing(kind: &str, ms: u64) -> Timing {
    let mut timing = Timing::new("q", kind);
    timing.run.add(Duration::from_millis(ms), 2);
    timing.failures.push(Failure::new(kind, JobId(ms.cast_signed()), &format!("error {kind} after {ms} ms")));
    timing
}

async fn said(f: &Fixture) -> (Histogram, Vec<(String, u64, JobId)>) {
    let request = TimingRequest::last(Duration::from_secs(30 * 86_400));
    let mut run = Histogram::default();
    f.store.timings(&request).await.unwrap().timed.iter().for_each(|timed| run.merge(&timed.run));
    let failures = f.store.failures(&request).await.unwrap();
    (run, failures.into_iter().map(|group| (group.sample, group.count, group.last_job)).collect())
}

/// Minutes, then quarters of an hour, then nothing; what they say stays the same until then.
#[tokio::test]
async fn rows_are_put_together() {
    let f = Fixture::new();
    for n in 0..20 {
        f.store.measure(&[timing("a", n + 1), timing("b", 500 + n)]).await.unwrap();
    }
    let before = said(&f).await;
    assert_eq!((before.0.count(), before.1.len()), (80, 2));
    let file = Connection::open(f.path()).unwrap();
    let rows = || -> (i64, i64) {
        let count = |table: &str| {
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        (count("timing"), count("failure"))
    };
    let later = |minutes: i64| {
        for table in ["timing", "failure"] {
            let sql = format!(
                "UPDATE {table} SET at = at / 900000000 * 900000000 - ?1 * 60000000 + rowid / 2 % 2 * 60000000"
            );
            file.execute(&sql, [minutes]).unwrap();
        }
    };
    later(60);
    f.maintain().await.unwrap();
    assert_eq!((rows(), said(&f).await), ((4, 4), before.clone()));
    later(6 * 60);
    f.maintain().await.unwrap();
    assert_eq!((rows(), said(&f).await), ((2, 2), before.clone()));
    later(30 * 24 * 60);
    f.maintain().await.unwrap();
    assert_eq!(rows(), (0, 0));
}

/// What was put together of a time to come does not keep what comes from being put together.
#[tokio::test]
async fn rows_are_put_together_after_the_clock_was_set_back() {
    const AHEAD: Duration = Duration::from_secs(300 * 86_400);
    let f = Fixture::new();
    f.advance(AHEAD);
    f.store.measure(&[timing("a", 1)]).await.unwrap();
    f.advance(2 * MINUTE);
    f.maintain().await.unwrap();
    f.set_back(AHEAD);
    f.maintain().await.unwrap();
    for n in 0..10 {
        f.store.measure(&[timing("a", n + 1)]).await.unwrap();
    }
    f.advance(2 * MINUTE);
    f.maintain().await.unwrap();
    let file = Connection::open(f.path()).unwrap();
    for table in ["timing", "failure"] {
        let sql = format!("SELECT count(*) FROM {table} WHERE at <= 1800000600000000");
        let rows: i64 = file.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1, "{table}");
    }
}

/// A program that makes up names of kinds and of errors does not fill the file.
#[tokio::test]
async fn many_kinds_are_few_rows() {
    let f = Fixture::new();
    for n in 0..10 {
        let timings: Vec<_> = (0..64).map(|k| timing(&format!("k{}", n * 64 + k), k + 1)).collect();
        f.store.measure(&timings).await.unwrap();
    }
    let before = said(&f).await.0;
    let file = Connection::open(f.path()).unwrap();
    file.execute_batch("UPDATE timing SET at = at - 3600000000; UPDATE failure SET at = at - 3600000000")
        .unwrap();
    f.maintain().await.unwrap();
    let rows = |sql| -> i64 { file.query_row(sql, [], |row| row.get(0)).unwrap() };
    // Two where the calls came in two minutes.
    let minutes = rows("SELECT count(DISTINCT at) FROM timing");
    assert!(rows("SELECT count(*) FROM timing") <= 251 * minutes && minutes < 3);
    assert!(rows("SELECT count(*) FROM failure") <= 251 * minutes);
    assert_eq!((said(&f).await.0, rows("SELECT sum(n) FROM failure")), (before, 640));
}
