//! Keyed queues beside programs of the version before, which know nothing of keys: their statements, run by hand.

use crate::{
    fixture::{Fixture, ids, jobs},
    keys::{add_of, at_once, complete_all, keys, limit, rows},
    older_schema::file_of,
};
use rusqlite::{Connection, params};
use std::{collections::BTreeMap, time::Duration};
use windlass_core::{JobStore, KeyLimit, KeyLimitsChange, RateLimit};
use windlass_sqlite::{SqliteOptions, SqliteStore};

/// What version 10 asks for before it claims.
const LANES_OF_10: &str = "SELECT count(*) FROM lane JOIN queue ON queue.id = lane.queue
    WHERE queue.name = 'default' AND NOT paused AND (available > 0 OR no_handler > 0)";

fn older(f: &Fixture) -> Connection {
    Connection::open(f.path()).unwrap()
}

/// Enqueues as version 10 does.
fn enqueue(conn: &Connection, key: &str, count: usize) {
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let add = "INSERT INTO job (pos, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
        SELECT (SELECT id FROM lane) << 45 | next_sequence, 'test', '{}', 0, 20, 0, 1, json_object('key', ?1) FROM meta";
    for _ in 0..count {
        conn.prepare_cached(add).unwrap().execute([key]).unwrap();
        conn.execute("UPDATE meta SET next_sequence = next_sequence + 1", []).unwrap();
    }
    conn.execute("UPDATE lane SET available = available + ?1", [count as i64]).unwrap();
    conn.execute_batch("COMMIT").unwrap();
}

fn sees_lanes(conn: &Connection) -> bool {
    conn.query_one(LANES_OF_10, [], |row| row.get::<_, i64>(0)).unwrap() > 0
}

#[tokio::test]
async fn to_an_older_program_a_keyed_queue_is_paused() {
    let f = Fixture::new();
    f.add(1).await;
    let older = older(&f);
    assert!(sees_lanes(&older));
    limit(&f, at_once(1)).await;
    assert!(!sees_lanes(&older));
    // It pauses the queue, and has it go on.
    older.execute("UPDATE queue SET paused = 1 WHERE name = 'default'", []).unwrap();
    assert!(f.queues().await.unwrap()[0].paused);
    let worker = f.worker().await;
    assert!(f.take(worker, 1).await.is_empty());
    older.execute("UPDATE queue SET paused = 0 WHERE name = 'default'", []).unwrap();
    assert!(!sees_lanes(&older));
    assert!(!f.queues().await.unwrap()[0].paused);
    assert_eq!(f.take(worker, 1).await.len(), 1);
    f.add(1).await;
    f.pause("default", true).await.unwrap();
    f.limit_keys("default", &KeyLimitsChange::Off).await.unwrap();
    assert!(f.queues().await.unwrap()[0].paused && !sees_lanes(&older));
    f.pause("default", false).await.unwrap();
    assert!(sees_lanes(&older));
}

/// Versions 11 to 13 know keys, and would hand out more than a rate allows. They read and write `paused` in its lowest bit.
#[tokio::test]
async fn to_a_program_without_rates_such_a_queue_is_paused() {
    const LANES_OF_13: &str = "SELECT count(*) FROM queue WHERE name = 'default' AND paused & 1 = 0";
    let f = Fixture::new();
    add_of(&f, "a", 5).await;
    let older = older(&f);
    let sees = || older.query_one(LANES_OF_13, [], |row| row.get::<_, i64>(0)).unwrap() > 0;
    let worker = f.worker().await;
    let rate = at_once(2).with_rate(RateLimit::new(3, Duration::from_secs(3600)));
    limit(&f, at_once(2)).await;
    assert!(sees());
    limit(&f, rate).await;
    assert!(!sees() && !sees_lanes(&older));
    assert!(!f.queues().await.unwrap()[0].paused);
    // It pauses the queue, and has it go on.
    for paused in [1, 0] {
        older.execute("UPDATE queue SET paused = ?1 WHERE name = 'default'", [paused]).unwrap();
        assert!(!sees() && f.queues().await.unwrap()[0].paused == (paused == 1));
    }
    assert_eq!(f.take(worker, 9).await.len(), 1, "of one lane its two jobs are one claim");
    f.pause("default", true).await.unwrap();
    limit(&f, at_once(2)).await;
    assert!(f.queues().await.unwrap()[0].paused && !sees());
    f.pause("default", false).await.unwrap();
    assert!(sees());
    limit(&f, rate).await;
    f.limit_keys("default", &KeyLimitsChange::Off).await.unwrap();
    assert!(sees() && sees_lanes(&older) && !f.queues().await.unwrap()[0].paused);
}

/// What it does to the counts of keys leaves those of rates alone.
#[tokio::test]
async fn a_program_without_rates_forgets_no_rate() {
    let f = Fixture::new();
    limit(&f, KeyLimit::default().with_rate(RateLimit::new(2, Duration::from_secs(3600)))).await;
    add_of(&f, "a", 5).await;
    let worker = f.worker().await;
    let claims = f.take(worker, 9).await;
    complete_all(&f, worker, &claims).await;
    let older = older(&f);
    older.execute("DELETE FROM key_held WHERE held <= 0 AND blockers <= 0", []).unwrap();
    older.execute("UPDATE key_turn SET state = 0", []).unwrap();
    assert!(f.take(worker, 9).await.is_empty());
}

#[tokio::test]
async fn what_an_older_program_adds_is_limited() {
    let f = Fixture::new();
    limit(&f, at_once(2)).await;
    f.add(1).await;
    let older = older(&f);
    enqueue(&older, "a", 25_000);
    enqueue(&older, "b", 1);
    let worker = f.worker().await;
    let mut asked = 0;
    let claims = loop {
        let claimed = f.claim(&crate::fixture::demand(worker, 100)).await.unwrap();
        asked += 1;
        if !claimed.contended {
            break claimed.claims;
        }
        assert!(claimed.claims.is_empty() && asked < 10, "nothing before all are entered");
    };
    assert!(asked > 1, "one claim does not enter them all");
    assert_eq!(keys(&claims), BTreeMap::from([("", 1), ("a", 2), ("b", 1)]));
}

#[tokio::test]
async fn what_an_older_program_takes_out_is_passed_over() {
    let f = Fixture::new();
    limit(&f, at_once(2)).await;
    let a = add_of(&f, "a", 5).await;
    let older = older(&f);
    let delete = "DELETE FROM job WHERE pos & 35184372088831 = ?1";
    a[..3].iter().for_each(|id| assert_eq!(older.execute(delete, [id.0]).unwrap(), 1));
    older.execute("UPDATE lane SET available = available - 3", []).unwrap();
    let worker = f.worker().await;
    let claims = f.take(worker, 100).await;
    assert_eq!(ids(&claims), a[3..]);
    complete_all(&f, worker, &claims).await;
    let a = add_of(&f, "a", 2).await;
    a.iter().for_each(|id| assert_eq!(older.execute(delete, [id.0]).unwrap(), 1));
    older.execute("UPDATE lane SET available = 0", []).unwrap();
    f.maintain().await.unwrap();
    assert_eq!(rows(&f), BTreeMap::new());
}

/// It rescues jobs of a worker that knew keys: they come back without a word about their key.
#[tokio::test]
async fn what_an_older_program_rescues_is_counted_by_housekeeping() {
    let f = Fixture::new();
    limit(&f, KeyLimit::serial()).await;
    let a = add_of(&f, "a", 2).await;
    let other = add_of(&f, "b", 1).await;
    let dead = f.worker().await;
    let claims = f.take(dead, 100).await;
    assert_eq!(ids(&claims), [a[0], other[0]]);
    let older = older(&f);
    older.execute_batch("BEGIN IMMEDIATE").unwrap();
    older.execute("UPDATE worker SET ended_at = 1 WHERE id = ?1", [dead.0]).unwrap();
    let again =
        "UPDATE job SET pos = (pos >> 45 & ~1) << 45 | (SELECT next_sequence FROM meta) WHERE pos = ?1";
    for job in &claims[0].jobs {
        if job.id == a[0] {
            older.execute(again, [job.position]).unwrap();
        } else {
            older.execute("DELETE FROM job WHERE pos = ?1", [job.position]).unwrap();
        }
        older.execute("UPDATE meta SET next_sequence = next_sequence + 1", []).unwrap();
    }
    older.execute("UPDATE claim SET open = 0, finished_at = 1", []).unwrap();
    older.execute("UPDATE lane SET available = available + 1, running = 0", []).unwrap();
    older.execute_batch("COMMIT").unwrap();
    let worker = f.worker().await;
    assert!(f.take(worker, 100).await.is_empty(), "it is not known yet that nobody holds it");
    f.maintain().await.unwrap();
    let first = f.take(worker, 100).await;
    assert_eq!(ids(&first), a[..1]);
    complete_all(&f, worker, &first).await;
    assert_eq!(ids(&f.take(worker, 100).await), a[1..]);
}

/// It ends a job that the others of its key wait for.
#[tokio::test]
async fn what_an_older_program_cancels_keeps_nobody_waiting() {
    let f = Fixture::new();
    limit(&f, KeyLimit::serial()).await;
    let a = add_of(&f, "a", 2).await;
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    let delay = std::time::Duration::from_secs(3600);
    f.except(worker, &held, windlass_core::Disposition::Snooze { delay }).await;
    assert!(f.take(worker, 100).await.is_empty());
    older(&f).execute("DELETE FROM waiting WHERE id = ?1", [a[0].0]).unwrap();
    f.maintain().await.unwrap();
    assert_eq!(ids(&f.take(worker, 100).await), a[1..]);
}

/// A store of version 10 with jobs that wait, run and completed.
#[tokio::test]
async fn a_store_of_the_version_before_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let conn = file_of(10, &path);
    conn.execute_batch(
        "INSERT INTO queue (id, name) VALUES (1, 'default');
        INSERT INTO lane (id, queue, priority, cursor) VALUES (2, 1, 0, 2 << 45);
        INSERT INTO worker (name, queues, kinds, lease, started_at, heartbeat_at, in_touch_since)
            VALUES ('older', '[]', '[]', 1, 1, 1, 1);",
    )
    .unwrap();
    enqueue(&conn, "a", 6);
    enqueue(&conn, "b", 2);
    let (lo, hi) = (2_i64 << 45 | 1, 2_i64 << 45 | 3);
    conn.execute(
        "INSERT INTO claim (lo, hi, token, worker, moved, open, completed, claimed_at) VALUES (?1, ?2, 7, 1, 0, 2, 1, 1)",
        [lo, hi],
    )
    .unwrap();
    conn.execute("INSERT INTO settlement (claim, first, last, at) VALUES (?1, 2, 2, 1)", [lo]).unwrap();
    conn.execute("UPDATE lane SET cursor = ?1, available = 5, running = 2, completed = 1", params![hi])
        .unwrap();
    drop(conn);
    let store = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).unwrap();
    let report = store.migrate().await.unwrap();
    assert_eq!((report.from, report.to > 10), (10, true));
    store.limit_keys("default", &KeyLimitsChange::Default(at_once(3))).await.unwrap();
    let spec = windlass_core::WorkerSpec {
        name: "newer".into(),
        queues: vec!["default".into()],
        kinds: vec![],
        lease: std::time::Duration::from_secs(3600),
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let claims = store.claim(&crate::fixture::demand(worker, 100)).await.unwrap().claims;
    assert_eq!(keys(&claims), BTreeMap::from([("a", 1), ("b", 2)]), "two of a are held since before");
    store.enqueue(&jobs(1)).await.unwrap();
    assert_eq!(store.claim(&crate::fixture::demand(worker, 100)).await.unwrap().claims[0].jobs.len(), 1);
}
