//! Programs of versions before 15 remember the numbers of lanes and queues: their statements, run by hand.

use crate::{
    fixture::Fixture,
    idle_lanes::{DAY, HOUR, add_to, keep_nothing, later, run, sql},
    older_schema::file_of,
};
use rusqlite::Connection;
use windlass_core::{ErrorKind, JobStore};
use windlass_sqlite::{SqliteOptions, SqliteStore};

const BEGIN_OF_14: &str = "SELECT next_sequence, key_changes FROM meta";
const CHANGED_OF_14: &str = "UPDATE meta SET key_changes = key_changes + 1 RETURNING key_changes";

fn number(conn: &Connection, sql: &str) -> i64 {
    conn.query_one(sql, [], |row| row.get(0)).unwrap()
}

fn queues(f: &Fixture) -> i64 {
    number(&sql(f), "SELECT count(*) FROM queue")
}

/// A queue that was used for the last time now.
async fn leave(f: &Fixture, queue: &str) {
    keep_nothing(f).await;
    add_to(&f.store, queue).await;
    run(&f.store, &[queue.to_owned()]).await;
    later(f, HOUR).await;
}

#[tokio::test]
async fn nothing_is_removed_while_an_older_program_writes() {
    let f = Fixture::new();
    leave(&f, "a").await;
    let older = sql(&f);
    for _ in 0..4 {
        f.advance(DAY);
        older.execute("UPDATE meta SET next_sequence = next_sequence + 1", []).unwrap();
        let begin: (i64, i64) =
            older.query_one(BEGIN_OF_14, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(begin.0, number(&sql(&f), "SELECT next_sequence FROM log_state"));
        assert_eq!(number(&older, CHANGED_OF_14), begin.1 + 1);
        f.maintain().await.unwrap();
        assert_eq!(queues(&f), 1);
    }
    // It may have used the lane in between, so two days begin when it was last heard of.
    later(&f, HOUR).await;
    later(&f, 2 * DAY - HOUR).await;
    assert_eq!(queues(&f), 1);
    later(&f, 2 * HOUR).await;
    assert_eq!(queues(&f), 0);
}

/// A queue without lanes has nothing else that tells of its use.
#[tokio::test]
async fn no_queue_is_removed_while_an_older_program_writes() {
    let f = Fixture::new();
    run(&f.store, &["a".to_owned()]).await;
    f.maintain().await.unwrap();
    for _ in 0..4 {
        sql(&f).execute("UPDATE meta SET next_sequence = next_sequence + 1", []).unwrap();
        later(&f, DAY).await;
        assert_eq!(queues(&f), 1);
    }
    later(&f, 2 * DAY).await;
    assert_eq!(queues(&f), 0);
}

#[tokio::test]
async fn nothing_is_removed_while_a_worker_of_an_older_program_lives() {
    let f = Fixture::new();
    leave(&f, "a").await;
    let older = sql(&f);
    older
        .execute_batch(
            "INSERT INTO worker (name, queues, kinds, lease, started_at, heartbeat_at, in_touch_since)
            VALUES ('older', '[]', '[]', 1, 1, 1, 1)",
        )
        .unwrap();
    later(&f, 3 * DAY).await;
    assert_eq!(queues(&f), 1);
    older.execute_batch("UPDATE worker SET ended_at = 1").unwrap();
    later(&f, HOUR).await;
    assert_eq!(queues(&f), 0);
}

#[tokio::test]
async fn the_first_removal_shuts_older_programs_out() {
    let f = Fixture::new();
    leave(&f, "a").await;
    let older = sql(&f);
    let compatible = "SELECT compatible_with FROM migration ORDER BY version DESC LIMIT 1";
    let begin = |conn: &Connection| conn.query_one(BEGIN_OF_14, [], |row| row.get::<_, i64>(0));
    assert!(begin(&older).is_ok() && number(&older, compatible) == 6);
    later(&f, 2 * DAY).await;
    assert_eq!(queues(&f), 0);
    assert_eq!(begin(&older), Err(rusqlite::Error::QueryReturnedNoRows));
    assert_eq!(older.execute("UPDATE meta SET next_sequence = next_sequence + 1", []), Ok(0));
    assert_eq!(number(&older, compatible), 15);
    // What is newer goes on, and needs nobody's absence any more.
    leave(&f, "b").await;
    later(&f, 2 * DAY).await;
    assert_eq!(queues(&f), 0);
}

/// A file of version 14 with a job in the log, one that is held and one that waits.
fn older_file(path: &std::path::Path) {
    let conn = file_of(14, path);
    conn.execute_batch(
        "INSERT INTO queue (id, name, paused) VALUES (1, 'a', 0), (2, 'idle', 0), (3, 'paused', 1);
        INSERT INTO lane (id, queue, priority, cursor, available, scheduled)
            VALUES (2, 1, 0, 2 << 45, 1, 0), (4, 1, 5, 4 << 45, 0, 1), (6, 2, 0, (6 << 45) + 7, 0, 0);
        INSERT INTO job (pos, kind, args, attempt, max_attempts, crash_count, enqueued_at)
            VALUES ((2 << 45) + 8, 'test', '{}', 0, 20, 0, 1);
        INSERT INTO waiting (id, lane, state, available_at, kind, args, attempt, max_attempts, crash_count, enqueued_at)
            VALUES (9, 4, 0, 1, 'test', '{}', 0, 20, 0, 1);
        UPDATE meta SET next_sequence = 10, key_changes = 3, requests = 4, handed = 5, held_checked = 6;",
    )
    .unwrap();
}

#[tokio::test]
async fn a_file_of_the_version_before_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    older_file(&path);
    let older = Connection::open(&path).unwrap();
    number(&older, BEGIN_OF_14);
    let store = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).unwrap();
    let report = store.migrate().await.unwrap();
    assert_eq!((report.from, report.to >= 15), (14, true));
    // As the program that has it open sees it.
    let kept: [i64; 5] = older
        .query_one("SELECT next_sequence, key_changes, requests, handed, held_checked FROM meta", [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
        })
        .unwrap();
    assert_eq!(kept, [10, 3, 4, 5, 6]);
    store.maintain().await.unwrap();
    assert_eq!(number(&older, "SELECT count(*) FROM lane"), 3);
    assert_eq!(number(&older, "SELECT count(older_at) FROM log_state"), 1, "it may remember what is there");
    store.promote(10).await.unwrap();
    let mut ran = run(&store, &["a".to_owned()]).await;
    ran.sort_unstable();
    assert_eq!(ran.iter().map(|job| job.0).collect::<Vec<_>>(), [8, 9]);
    assert!(add_to(&store, "idle").await.0 > 9);
    assert_eq!(run(&store, &["idle".to_owned()]).await.len(), 1);
    assert!(store.queues().await.unwrap().iter().any(|queue| queue.name == "paused" && queue.paused));
}

#[tokio::test]
async fn a_program_that_is_shut_out_is_told_when_it_opens_the_file() {
    let f = Fixture::new();
    leave(&f, "a").await;
    later(&f, 2 * DAY).await;
    f.close().await;
    // This program, as one that knows a version less.
    let conn = sql(&f);
    let version = number(&conn, "PRAGMA user_version") + 1;
    conn.pragma_update(None, "user_version", version).unwrap();
    conn.execute("UPDATE migration SET version = version + 1, compatible_with = version + 1 WHERE version = (SELECT max(version) FROM migration)", [])
        .unwrap();
    drop(conn);
    let error = SqliteStore::open(f.path().to_str().unwrap(), SqliteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaTooNew);
}

/// A later migration lets none in again whom a removal shut out, and shuts none out by itself.
#[tokio::test]
async fn a_migration_keeps_shut_out_who_was() {
    for shut_out in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let older = file_of(15, &path);
        if shut_out {
            older.execute("UPDATE migration SET compatible_with = 15", []).unwrap();
        }
        SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).unwrap();
        let compatible = "SELECT compatible_with FROM migration ORDER BY version DESC LIMIT 1";
        assert!(number(&older, "PRAGMA user_version") > 15);
        assert_eq!(number(&older, compatible), if shut_out { 15 } else { 6 });
    }
}
