//! What one transaction of housekeeping costs, and how much it removes.

use crate::{
    cost::assert_alike,
    deploys,
    maintain::{self, Chunk},
    traced::Traced,
};
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
