//! Jobs with large args: who moves or removes many of them does so in several transactions, so that others need not wait long.

use crate::fixture::{Fixture, jobs};
use std::{collections::BTreeSet, time::Duration};
use windlass_core::{Args, JobFilter, JobId, JobStore, NewJob, Settings};
use windlass_sqlite::SqliteStore;

const SECOND: Duration = Duration::from_secs(1);
const JOBS: usize = 160;

/// Of half a MiB, or of a few bytes.
fn batch(large: bool) -> Vec<NewJob> {
    let args = Args::of(&"x".repeat(if large { 1 << 19 } else { 1 })).unwrap();
    vec![NewJob::new("test", args); JOBS]
}

/// The time of the next transaction, in microseconds; the one after it is a microsecond later.
async fn time(ticking: &SqliteStore) -> i64 {
    let id = ticking.enqueue(&jobs(1)).await.unwrap()[0];
    ticking.job(id).await.unwrap().unwrap().enqueued_at.as_microsecond()
}

#[tokio::test]
async fn they_are_promoted_in_parts() {
    let mut looks = Vec::new();
    for large in [false, true] {
        let f = Fixture::new();
        let later: Vec<_> = batch(large).into_iter().map(|job| job.with_delay(SECOND)).collect();
        f.enqueue(&later).await.unwrap();
        f.advance(SECOND);
        let ticking = f.ticking();
        let before = time(&ticking).await;
        let promoted = ticking.promote(1_000).await.unwrap();
        assert_eq!((promoted.count, promoted.next_due), (JOBS as u64, None));
        looks.push(time(&ticking).await - before);
    }
    assert!(looks[1] >= looks[0] + 2, "{looks:?}");
}

#[tokio::test]
async fn they_are_removed_in_parts() {
    for completed in [false, true] {
        let mut took = Vec::new();
        for large in [false, true] {
            let f = Fixture::new();
            let ids = f.enqueue(&batch(large)).await.unwrap();
            let worker = f.worker().await;
            for id in &ids {
                match completed {
                    true => drop(f.complete(worker, &f.take(worker, 1).await[0]).await),
                    false => drop(f.cancel(&[*id]).await.unwrap()),
                }
            }
            let none = Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(Duration::ZERO);
            f.configure(&none).await.unwrap();
            f.advance(SECOND);
            let ticking = f.ticking();
            let before = time(&ticking).await;
            ticking.maintain().await.unwrap();
            took.push(time(&ticking).await - before);
            assert_eq!(f.job(ids[JOBS - 1]).await.unwrap().map(|job| job.state), None);
        }
        assert!(took[1] > took[0], "completed: {completed}, {took:?}");
    }
}

/// What a page has is cancelled, retried or moved in one transaction.
#[tokio::test]
async fn a_page_has_few_of_them() {
    let f = Fixture::new();
    let ids = f.enqueue(&batch(true)).await.unwrap();
    let mut filter = JobFilter { limit: 1_000, ..JobFilter::default() };
    let mut listed: Vec<JobId> = Vec::new();
    loop {
        let page = f.jobs(&filter).await.unwrap();
        assert!((1..=16).contains(&page.len()) || page.next.is_none(), "{} jobs", page.len());
        listed.extend(page.iter().map(|job| job.id));
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), JOBS);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), ids.into_iter().collect());
}
