//! Jobs with large args, or many jobs: who moves or removes them does so in several transactions, so that others need not wait long.

use crate::fixture::{Fixture, LEASE, demand, jobs};
use std::{collections::BTreeSet, time::Duration};
use windlass_core::{
    Args, ClaimedJob, Completion, Disposition, Exception, JobFilter, JobId, JobSet, JobStore, NewJob,
    Settings, SettleRequest, Settled,
};
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

/// As many as a fast worker holds.
#[tokio::test]
async fn who_leaves_hands_back_in_parts() {
    let f = Fixture::new();
    f.add(5_000).await;
    let worker = f.worker().await;
    f.take(worker, 4_000).await;
    f.take(worker, 1_000).await;
    let ticking = f.ticking();
    let before = time(&ticking).await;
    ticking.deregister(worker).await.unwrap();
    let parts = time(&ticking).await - before - 1;
    assert!(parts >= 3, "{parts}");
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.available, queue.running), (5_002, 0));
    assert!(f.claim(&demand(worker, 1)).await.unwrap_err().is_lease_lost());
}

#[tokio::test]
async fn what_became_of_many_is_settled_in_parts() {
    let f = Fixture::new();
    f.add(5_000).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 5_000).await.remove(0);
    let fate = |nth: usize| match nth % 1_000 {
        0 => Disposition::Complete { result: Some(Args::of(&nth).unwrap()) },
        _ => Disposition::Retry { delay: SECOND, error: "no".to_owned() },
    };
    let exception = |nth: usize| Exception {
        claim: claim.reference,
        job: claim.jobs[nth].id,
        // One is not where this says.
        position: claim.jobs[nth].position + i64::from(nth == 4_990),
        disposition: fate(nth),
    };
    let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 1 };
    let exceptions = (0..4_999).map(exception).collect();
    let request = SettleRequest { worker, completions: vec![rest], exceptions };
    let ticking = f.ticking();
    let before = time(&ticking).await;
    let reply = ticking.settle(&request).await.unwrap();
    let parts = time(&ticking).await - before - 1;
    assert!(parts >= 5, "{parts}");
    let place = |settled| reply.exceptions.iter().position(|one| *one == settled);
    assert_eq!((place(Settled::Accepted), place(Settled::Refused)), (Some(0), Some(4_990)));
    assert_eq!((reply.exceptions.len(), reply.completions), (4_999, vec![Settled::Accepted]));
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.retryable, queue.completed, queue.running), (4_993, 7, 0));
    let again = f.settle(&request).await.unwrap();
    assert!(!again.exceptions.contains(&Settled::Accepted));
    assert_eq!(again.completions, [Settled::Already]);
}

/// The same of jobs with large args: those of many claims, and one of them in parts.
#[tokio::test]
async fn they_are_handed_back_in_parts() {
    for by_rescue in [false, true] {
        let mut parts = Vec::new();
        for large in [false, true] {
            let f = Fixture::new();
            let rescuer = f.rescuer().await;
            f.enqueue(&batch(large)).await.unwrap();
            let worker = f.worker().await;
            for _ in 0..40 {
                f.take(worker, 1).await;
            }
            let mut left = f.take(worker, 120).await;
            while !left.is_empty() {
                left = f.take(worker, 120).await;
            }
            f.advance(LEASE + SECOND);
            let ticking = f.ticking();
            let before = time(&ticking).await;
            match by_rescue {
                true => assert_eq!(ticking.rescue(rescuer).await.unwrap().rescued, JOBS as u64),
                false => ticking.deregister(worker).await.unwrap(),
            }
            parts.push(time(&ticking).await - before - 1);
            let queue = &f.queues().await.unwrap()[0];
            assert_eq!((queue.available, queue.running), (JOBS as u64 + 2, 0));
        }
        assert!(parts[1] >= parts[0] + 8, "by rescue: {by_rescue}, {parts:?}");
    }
}

/// Those that completed stay as they are, whatever became of others.
#[tokio::test]
async fn what_became_of_them_is_settled_in_parts() {
    let mut parts = Vec::new();
    for large in [false, true] {
        let f = Fixture::new();
        f.enqueue(&batch(large)).await.unwrap();
        let worker = f.worker().await;
        let mut request = SettleRequest { worker, completions: vec![], exceptions: vec![] };
        loop {
            let claims = f.take(worker, JOBS as u32).await;
            let Some(claim) = claims.first() else { break };
            let fate = |nth: usize| match nth % 4 {
                0 => Disposition::Complete { result: Some(Args::of(&nth).unwrap()) },
                1 => Disposition::Snooze { delay: SECOND },
                2 => Disposition::Discard { error: "no".to_owned(), failed: true },
                _ => Disposition::Retry { delay: SECOND, error: "no".to_owned() },
            };
            let exception = |(nth, job): (usize, &ClaimedJob)| Exception {
                claim: claim.reference,
                job: job.id,
                position: job.position,
                disposition: fate(nth),
            };
            // The last of each completes with its claim.
            let count = claim.jobs.len() - 1;
            request.exceptions.extend(claim.jobs[..count].iter().enumerate().map(exception));
            let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 1 };
            request.completions.push(rest);
        }
        let ticking = f.ticking();
        let before = time(&ticking).await;
        let reply = ticking.settle(&request).await.unwrap();
        parts.push(time(&ticking).await - before - 1);
        assert_eq!(reply.exceptions, vec![Settled::Accepted; request.exceptions.len()]);
        assert_eq!(reply.completions, vec![Settled::Accepted; request.completions.len()]);
        let queue = &f.queues().await.unwrap()[0];
        let settled = [queue.completed, queue.scheduled, queue.retryable, queue.discarded];
        assert_eq!((settled.iter().sum::<u64>(), queue.running), (JOBS as u64, 0), "{settled:?}");
        let again = f.settle(&request).await.unwrap();
        assert_eq!(again.exceptions, vec![Settled::Already; request.exceptions.len()]);
    }
    assert!(parts[1] >= parts[0] + 4, "{parts:?}");
}
