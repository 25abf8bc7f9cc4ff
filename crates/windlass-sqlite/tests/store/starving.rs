//! No lane waits for ever behind better ones.

use crate::{
    fixture::{Fixture, ids, job},
    keys::{at_once, limit},
};
use std::time::Duration;
use windlass_core::{Disposition, JobId, JobStore, WorkerId};

/// More than a lane's patience, and less than a lease.
const LONG: Duration = Duration::from_secs(11);
/// One claim in 16 looks for lanes that starve: of so many at least one.
const CLAIMS: usize = 300;

/// Which of these jobs is handed out while there is always enough that is better.
async fn comes(f: &Fixture, worker: WorkerId, jobs: &[JobId]) -> Option<JobId> {
    for _ in 0..CLAIMS {
        f.add(2).await;
        let claims = f.take(worker, 2).await;
        for claim in &claims {
            f.complete(worker, claim).await;
        }
        if let Some(id) = ids(&claims).into_iter().find(|id| jobs.contains(id)) {
            return Some(id);
        }
    }
    None
}

#[tokio::test]
async fn jobs_without_handler_do_not_starve() {
    for keyed in [false, true] {
        let f = Fixture::new();
        if keyed {
            limit(&f, at_once(5)).await;
        }
        let rare = f.enqueue(&[job("rare").with_priority(9), job("rare").with_priority(9)]).await.unwrap();
        let (plain, expert) = (f.worker_for(&["other"]).await, f.worker_for(&["test", "rare"]).await);
        for _ in &rare {
            f.except(plain, &f.take_one(plain).await, Disposition::NoHandler).await;
        }
        assert_eq!(comes(&f, expert, &rare).await, None, "not yet");
        f.advance(LONG);
        assert_eq!(comes(&f, expert, &rare).await, Some(rare[0]), "keyed: {keyed}");
        assert_eq!(comes(&f, expert, &rare).await, None, "one at a time, each after it has waited");
        f.advance(LONG);
        assert_eq!(comes(&f, expert, &rare).await, Some(rare[1]));
    }
}

/// One that this worker does not know hides no other.
#[tokio::test]
async fn a_lane_without_a_job_for_the_worker_hides_no_other() {
    let f = Fixture::new();
    let unknown = f.enqueue(&[job("unknown").with_priority(9)]).await.unwrap();
    let (plain, expert) = (f.worker_for(&["other"]).await, f.worker_for(&["test"]).await);
    f.except(plain, &f.take_one(plain).await, Disposition::NoHandler).await;
    f.advance(Duration::from_secs(1));
    let low = f.enqueue(&[job("test").with_priority(5)]).await.unwrap();
    f.advance(LONG);
    assert_eq!(comes(&f, expert, &[unknown[0], low[0]]).await, Some(low[0]));
}

#[tokio::test]
async fn a_clock_that_is_set_back_lets_no_lane_starve() {
    let f = Fixture::new();
    let low = f.enqueue(&[job("test").with_priority(5)]).await.unwrap();
    let worker = f.worker().await;
    f.set_back(Duration::from_secs(3_600));
    assert_eq!(comes(&f, worker, &low).await, Some(low[0]));
}
