//! Unique jobs, as far as only this store has to do with them.

use crate::{
    fixture::{Fixture, job},
    idle_lanes::sql,
};
use std::time::Duration;
use windlass_core::{JobStore, Unique};

/// To find a job costs a look into each lane: with many lanes fewer keys are looked at in one transaction.
#[tokio::test]
async fn with_many_lanes_few_keys_are_looked_at_at_once() {
    let f = Fixture::new();
    let jobs: Vec<_> = (0..40).map(|n| job("test").with_unique(Unique::by_key(format!("{n}")))).collect();
    f.enqueue_unique(&jobs).await.unwrap();
    let lanes = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4999)
        INSERT INTO lane (id, queue, priority, cursor) SELECT 2 * n + 1000, 1, n, (2 * n + 1000) << 45 FROM n";
    let conn = sql(&f);
    conn.execute(lanes, []).unwrap();
    f.advance(Duration::from_secs(61));
    f.ticking().maintain().await.unwrap();
    let looked =
        "SELECT count(DISTINCT check_at), count(*) FROM unique_key WHERE check_at > taken_at + 100000000";
    let looked = conn.query_one(looked, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(looked, (10, 40), "transactions and keys");
}
