//! Rates of keys, as far as only this store has to do with them.

use crate::{
    fixture::{Fixture, demand, ids},
    keys::{add_of, complete_all, limit, rows},
};
use std::time::Duration;
use windlass_core::{JobStore, KeyLimit, RateLimit, WorkerId};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

fn per(count: u32, period: Duration) -> KeyLimit {
    KeyLimit::default().with_rate(RateLimit::new(count, period))
}

/// Claims what there is and completes it. How many that were.
async fn work(f: &Fixture, worker: WorkerId) -> usize {
    let claims = f.take(worker, 100).await;
    complete_all(f, worker, &claims).await;
    ids(&claims).len()
}

#[tokio::test]
async fn what_ends_one_after_the_other_is_few_rows() {
    const JOBS: usize = 600;
    let f = Fixture::new();
    limit(&f, per(JOBS as u32, HOUR)).await;
    let worker = f.worker().await;
    for _ in 0..JOBS {
        add_of(&f, "a", 1).await;
        assert_eq!(work(&f, worker).await, 1);
        f.advance(HOUR / JOBS as u32);
    }
    let count = rows(&f)["key_ended"];
    assert!(count <= 66, "{count} rows");
    // Each counts for its period, and for no more than a sixty-fourth of it beyond.
    add_of(&f, "a", JOBS).await;
    let mut done = work(&f, worker).await;
    assert!(done <= 1, "{done} jobs as soon as the first is past");
    for n in 2..=JOBS {
        f.advance(HOUR / JOBS as u32);
        done += work(&f, worker).await;
        assert!((n.saturating_sub(JOBS / 64 + 1)..=n).contains(&done), "{done} of {n}");
    }
    f.advance(HOUR + HOUR / 64);
    f.maintain().await.unwrap();
    assert_eq!((rows(&f).get("key_ended"), rows(&f).get("key_ended_count")), (None, None));
}

/// What ended counts for a period from now at most, as far as anybody can tell.
#[tokio::test]
async fn a_clock_that_is_set_back_neither_stalls_a_rate_nor_exceeds_it() {
    let f = Fixture::new();
    limit(&f, per(3, MINUTE)).await;
    let worker = f.rescuer().await;
    add_of(&f, "a", 9).await;
    let first = f.take(worker, 1).await;
    complete_all(&f, worker, &first).await;
    f.advance(MINUTE / 2);
    assert_eq!(work(&f, worker).await, 2);
    f.heartbeat(worker).await.unwrap();
    f.set_back(HOUR);
    assert_eq!(work(&f, worker).await, 0);
    f.heartbeat(worker).await.unwrap();
    let claimed = f.claim(&demand(worker, 9)).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.next_due), (0, Some(MINUTE)), "all three count on");
    f.advance(MINUTE);
    f.promote(10).await.unwrap();
    assert_eq!(work(&f, worker).await, 3);
    assert_eq!(work(&f, worker).await, 0);
}

/// Nor where all that saw it as it was have ended.
#[tokio::test]
async fn a_clock_that_is_set_back_while_nobody_works_stalls_no_rate() {
    let f = Fixture::new();
    limit(&f, per(1, MINUTE)).await;
    add_of(&f, "a", 2).await;
    let before = f.worker().await;
    assert_eq!(work(&f, before).await, 1);
    f.deregister(before).await.unwrap();
    f.set_back(10 * 365 * 24 * HOUR);
    let worker = f.rescuer().await;
    let claimed = f.claim(&demand(worker, 9)).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.next_due), (0, Some(MINUTE)), "it counts on");
    f.advance(MINUTE);
    f.promote(10).await.unwrap();
    assert_eq!(work(&f, worker).await, 1);
}
