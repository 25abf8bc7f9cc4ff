//! Unique jobs, as far as only this store has to do with them.

use crate::{
    fixture::{Fixture, job},
    idle_lanes::sql,
};
use std::time::Duration;
use windlass_core::{JobStore, Unique};

/// To find a job whose lane is not noted costs a look into each lane: with many lanes fewer keys are looked at in one transaction.
#[tokio::test]
async fn with_many_lanes_few_keys_of_jobs_of_before_are_looked_at_at_once() {
    assert_eq!(looks("UPDATE log_state SET lanes_from = next_sequence").await, (10, 40));
    assert_eq!(looks("").await, (1, 40));
}

/// How many transactions look at how many keys.
async fn looks(before: &str) -> (i64, i64) {
    let f = Fixture::new();
    let jobs: Vec<_> = (0..40).map(|n| job("test").with_unique(Unique::by_key(format!("{n}")))).collect();
    f.enqueue_unique(&jobs).await.unwrap();
    let lanes = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4999)
        INSERT INTO lane (id, queue, priority, cursor) SELECT 2 * n + 1000, 1, n, (2 * n + 1000) << 45 FROM n";
    let conn = sql(&f);
    conn.execute(lanes, []).unwrap();
    conn.execute_batch(before).unwrap();
    f.advance(Duration::from_secs(61));
    f.ticking().maintain().await.unwrap();
    let looked =
        "SELECT count(DISTINCT check_at), count(*) FROM unique_key WHERE check_at > taken_at + 100000000";
    conn.query_one(looked, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}
