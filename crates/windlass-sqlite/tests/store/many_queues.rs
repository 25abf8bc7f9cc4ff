//! Claims of a worker of very many queues.

use crate::fixture::{Fixture, job};
use std::collections::HashSet;
use windlass_core::{ClaimRequest, JobStore, QueueDemand};

const QUEUES: usize = 500;

fn name(nth: usize) -> String {
    format!("q{nth}")
}

/// A worker that wants a job of each.
async fn request(f: &Fixture) -> ClaimRequest {
    let queues = (0..QUEUES).map(|nth| QueueDemand::new(name(nth), 1)).collect();
    ClaimRequest { worker: f.worker().await, queues }
}

/// Though there is work in each of them all the time: none starves, and no transaction hands out of all.
#[tokio::test]
async fn a_claim_of_very_many_queues_is_made_in_parts_and_each_has_its_turn() {
    let f = Fixture::new();
    let request = request(&f).await;
    let jobs: Vec<_> = (0..QUEUES).map(|nth| job("test").with_queue(name(nth))).collect();
    for _ in 0..10 {
        f.enqueue(&jobs).await.unwrap();
    }
    let mut served = HashSet::new();
    for part in 1.. {
        let claimed = f.claim(&request).await.unwrap();
        let queues: Vec<_> = claimed.claims.iter().map(|claim| claim.queue.to_string()).collect();
        assert!(claimed.contended && !queues.is_empty() && queues.len() <= 200, "{}", queues.len());
        let before = served.len();
        served.extend(queues.iter().cloned());
        if served.len() == QUEUES {
            assert!(part >= 3, "{part}");
            break;
        }
        assert_eq!(served.len(), before + queues.len(), "each in turn");
    }
}

/// Wherever the one is.
#[tokio::test]
async fn a_claim_that_finds_nothing_in_one_part_goes_on_with_the_next() {
    let f = Fixture::new();
    let request = request(&f).await;
    for nth in [QUEUES - 1, 0, QUEUES / 2] {
        f.enqueue(&[job("test").with_queue(name(nth))]).await.unwrap();
        let claimed = f.claim(&request).await.unwrap();
        assert_eq!((claimed.claims.len(), claimed.contended), (1, false));
        assert_eq!(*claimed.claims[0].queue, name(nth));
    }
    let none = f.claim(&request).await.unwrap();
    assert!(none.claims.is_empty() && !none.contended);
}
