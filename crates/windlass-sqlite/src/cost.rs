//! What it costs to find something among much else, counted in steps of SQLite's virtual machine.

use crate::{enqueue::Batch, fold, maintain, traced::Traced};
use windlass_core::{Args, JobId, NewJob};

const HOUR: i64 = 3_600_000_000;

fn job(queue: &str) -> NewJob {
    NewJob::new("test", Args::parse("{}").unwrap()).with_queue(queue.to_owned())
}

fn add(store: &mut Traced, jobs: &[NewJob]) -> Vec<JobId> {
    let batch = Batch::pack(jobs);
    store.run(|tx| batch.append(tx)).0
}

/// Jobs of so many queues, in turn.
fn mixed(queues: usize, jobs: usize) -> Vec<NewJob> {
    (0..jobs).map(|n| job(&format!("queue{}", n % queues))).collect()
}

fn assert_alike(what: &str, few: i64, many: i64) {
    assert!(
        many * 10 < few * 12,
        "{what}: {few} steps where there is little else, {many} where there is much"
    );
}

/// What can still be told of is not looked through with each round of housekeeping.
#[test]
fn housekeeping_passes_over_what_is_told_of() {
    let cost = |rows: i64| {
        let mut store = Traced::new();
        add(&mut store, &mixed(1, 1));
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n WHERE n < 100 + {rows})
                INSERT INTO enqueued_range SELECT n, n, {}, 2, 'test' FROM n;
            UPDATE log_state SET next_sequence = {rows} + 101",
            2 * HOUR
        );
        store.conn.execute_batch(&fill).unwrap();
        store.now += 2 * HOUR;
        store.run(|tx| maintain::maintain(tx, true)).1.steps
    };
    assert_alike("a round", cost(10_000), cost(100_000));
}

/// Of claims past the retention a transaction looks at those that it may remove.
#[test]
fn housekeeping_looks_at_the_claims_that_it_removes() {
    let cost = |claims: i64| {
        let store = &mut Traced::new();
        let fill = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {claims})
                INSERT INTO claim (lo, hi, token, worker, moved, open, completed, claimed_at, finished_at, started, changed)
                SELECT n, n, 1, 1, 0, 0, 1, 1, 1, 0, 0 FROM n"
        );
        store.conn.execute_batch(&fill).unwrap();
        store.run(|tx| fold::fold(tx, HOUR, 1_000, false)).1.steps
    };
    assert_alike("a look", cost(1_000), cost(50_000));
}
