//! What one transaction of housekeeping costs, and how much it removes.

use crate::{
    cost::{add, assert_alike, mixed},
    deploys, key_limits, key_upkeep,
    maintain::{self, Chunk},
    traced::Traced,
};
use std::time::Duration;
use windlass_core::{KeyLimit, KeyLimitsChange, RateLimit};

const HOUR: i64 = 3_600_000_000;

/// Those that ended long ago are found by when that was.
#[test]
fn housekeeping_looks_at_the_workers_that_it_forgets() {
    let cost = |others: i64| {
        let mut store = Traced::new();
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500 + {others})
                INSERT INTO worker (name, queues, kinds, lease, started_at, heartbeat_at, in_touch_since, ended_at)
                SELECT 'w', '[]', '[]', 1, n, n, n, CASE WHEN n > 1500 THEN {HOUR} * 50 END + n FROM n;
            UPDATE worker SET ended_at = started_at WHERE started_at <= 1500"
        );
        store.conn.execute_batch(&fill).unwrap();
        store.now += 48 * HOUR;
        let ((_, next), work) = store.run(|tx| maintain::maintain(tx, Chunk::FIRST));
        assert!(next.is_some(), "there are more");
        let left = || -> i64 {
            let left = "SELECT count(*) FROM worker WHERE ended_at < 10000000";
            store.conn.query_one(left, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(left(), 500);
        work.steps
    };
    assert_alike("a transaction", cost(100), cost(10_000));
}

/// It may look at hundreds of each.
#[test]
fn housekeeping_removes_so_much_of_keys_whatever_number_of_queues_has_some() {
    let rate = KeyLimit::default().with_rate(RateLimit::new(1, Duration::from_secs(3_600)));
    let mut store = Traced::new();
    for n in 0..30 {
        store.run(|tx| key_limits::change(tx, &format!("queue{n}"), &KeyLimitsChange::Default(rate)));
    }
    add(&mut store, &mixed(30, 30));
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
            INSERT INTO key_ended SELECT queue.id, 'a' || n, n, 1 FROM queue, n WHERE name LIKE 'queue%';
        INSERT INTO key_ended_count SELECT queue, key, jobs FROM key_ended;
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
            INSERT INTO key_turn (n, key, vt, state) SELECT keyed_lane.n, 'a' || n.n, 0, 2 FROM keyed_lane, n";
    store.conn.execute_batch(fill).unwrap();
    let left = "SELECT (SELECT count(*) FROM key_ended) + (SELECT count(*) FROM key_turn WHERE state = 2)";
    let left = |store: &Traced| -> i64 { store.conn.query_one(left, [], |row| row.get(0)).unwrap() };
    for expected in [50_000, 40_000, 30_000, 20_000, 10_000, 0] {
        assert!(store.run(key_upkeep::keep).0, "there is more");
        assert_eq!(left(&store), expected);
    }
    assert!(!store.run(key_upkeep::keep).0);
}

/// Who looks for them passes over all workers, and does that where nobody waits for the file.
#[test]
fn a_deploy_is_looked_for_before_it_is_marked() {
    let mut store = Traced::new();
    let workers = "INSERT INTO worker (name, queues, kinds, lease, started_at, heartbeat_at, in_touch_since, program, app_version)
        VALUES ('w', '[]', '[]', 1, 1, 1, 1, 'p', '1'), ('w', '[]', '[]', 1, 2, 2, 2, 'p', ?1)";
    for (version, expected) in [("1", false), ("2", true)] {
        store.conn.execute("DELETE FROM worker", []).unwrap();
        store.conn.execute(workers, [version]).unwrap();
        assert_eq!(store.run(|tx| deploys::is_any(tx.conn, tx.now)).0, expected, "{version} after 1");
    }
    store.run(|tx| deploys::mark(tx));
    assert!(!store.run(|tx| deploys::is_any(tx.conn, tx.now)).0, "it is marked");
}
