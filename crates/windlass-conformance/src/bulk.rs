//! Bulk: one enqueue of very many jobs, drained in large batches.

pub use crate::fixture::BULK_JOBS as JOBS;
use crate::{Fixture, steps::*};
use std::sync::Arc;
use tokio::task::JoinSet;

/// How many jobs a claimer takes at once.
const BATCH: u32 = 5_000;

/// One enqueue of very many jobs is stored whole, and two claimers drain it: each job once.
pub async fn one_large_enqueue_drains(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut enqueued = enqueue_jobs(&store, fixture.bulk_jobs()).await;
    assert_eq!(enqueued.len(), fixture.bulk_jobs());
    let stats = queue(&store, QUEUE).await;
    let off = stats.available.abs_diff(enqueued.len() as u64);
    assert!(off == 0 || (!stats.estimates.is_empty() && off < stats.available / 10), "{stats:?}");
    let mut claimers = JoinSet::new();
    for _ in 0..2 {
        let worker = worker_on(&fixture.open().await).await;
        let expected = enqueued.len() as u64;
        claimers.spawn(async move {
            let mut drained = worker.drain(BATCH).await;
            // An empty answer may mean that the other one was claiming: go on until all is handed out.
            eventually("the queue is drained", || async {
                let stats = queue(&worker.store, QUEUE).await;
                (stats.completed == expected || stats.available > 0).then_some(())
            })
            .await;
            drained.extend(worker.drain(BATCH).await);
            drained
        });
    }
    let mut drained = claimers.join_all().await.concat();
    drained.extend(worker_on(&Arc::clone(&store)).await.drain(BATCH).await);
    drained.sort_unstable();
    enqueued.sort_unstable();
    assert!(drained == enqueued, "{} enqueued, {} drained", enqueued.len(), drained.len());
    assert_eq!(queue(&store, QUEUE).await.completed, enqueued.len() as u64);
}
