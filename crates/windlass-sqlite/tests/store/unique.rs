//! Unique jobs, as far as only this store has to do with them.

use crate::{
    fixture::{Fixture, job},
    idle_lanes::sql,
};
use std::time::Duration;
use windlass_core::{JobStore, OnConflict, Unique};

/// To find a job whose lane is not noted costs a look into each lane: with many lanes fewer keys are looked at in one transaction.
#[tokio::test]
async fn with_many_lanes_few_keys_of_jobs_of_before_are_looked_at_at_once() {
    assert_eq!(looks("UPDATE log_state SET lanes_from = next_sequence").await, (10, 40));
    assert_eq!(looks("").await, (1, 40));
}

/// What was taken when it was ahead has the key for no longer than it is; a small step lets nobody in.
#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_window_longer() {
    const MINUTE: Duration = Duration::from_secs(60);
    for rule in [OnConflict::Keep, OnConflict::Extend] {
        let f = Fixture::new();
        let store = async || {
            let unique = Unique::by_key("k").for_window(MINUTE).on_conflict(rule);
            f.enqueue_unique(&[job("test").with_unique(unique)]).await.unwrap()[0].conflict
        };
        assert_eq!(store().await, None);
        f.set_back(MINUTE / 2);
        assert!(store().await.is_some());
        f.set_back(3_600 * MINUTE);
        assert_eq!(store().await, None);
        assert!(store().await.is_some(), "it has the key from now on");
        f.advance(MINUTE);
        assert_eq!(store().await, None);
    }
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
