//! What ends a job that foreign code runs, before that code does: it is told, has the grace, and then the job is taken from it.

use crate::{
    fake::{FakeStore, config},
    lent::{Foreign, enqueue, start, until},
};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::{CancelReply, JobState, JobStore, Outcome, WorkerId};
use windlass_runtime::{
    WorkerConfig,
    lend::{Lender, News, StopReason},
};

const LIMIT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(5);

fn failed() -> Outcome {
    Outcome::Retry { after: None, error: "stopped".into() }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_is_told_and_taken_away_after_the_grace() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 3);
    let (engine, foreign) = (start(&store, config(3), &lender).await, Foreign::new(&lender));
    let jobs = foreign.take(3).await;
    assert_eq!(store.cancel(&ids).await.unwrap(), [CancelReply::Running; 3]);
    let mut news = Vec::new();
    while news.len() < 3 {
        news.extend(foreign.news().await);
    }
    let interrupts = jobs.iter().map(|job| News::Interrupt(job.ticket, StopReason::Cancelled));
    assert_eq!(news, interrupts.collect::<Vec<_>>());
    assert!(jobs.iter().all(|job| job.context.is_cancel_requested()));
    let done = vec![(jobs[0].ticket, Outcome::Complete(None)), (jobs[1].ticket, failed())];
    assert_eq!(foreign.exchange(done, 0).1.refused, 0, "what it says now counts");
    assert_eq!(foreign.news().await, [News::Evicted(jobs[2].ticket)]);
    assert_eq!(foreign.exchange(vec![(jobs[2].ticket, failed())], 0).1.refused, 1);
    until(&store, ids[0], JobState::Completed).await;
    until(&store, ids[1], JobState::Cancelled).await;
    until(&store, ids[2], JobState::Cancelled).await;
    engine.shutdown().await;
    let reason = |n: usize| store.model().job(ids[n]).reason.unwrap();
    assert_eq!(reason(1), "cancelled by request: stopped");
    assert!(reason(2).contains("went on for 5s more"), "{}", reason(2));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_attempt_counts_from_when_it_is_lent() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = [(); 2].map(|()| enqueue(&store, |job| job.with_timeout(LIMIT), 0));
    let (engine, foreign) = (start(&store, config(2), &lender).await, Foreign::new(&lender));
    sleep(10 * LIMIT).await;
    assert_eq!(lender.offered(), 2, "nobody was there");
    let (jobs, lent_at) = (foreign.take(2).await, Instant::now());
    let mut news = Vec::new();
    while news.len() < 2 {
        news.extend(foreign.news().await);
    }
    let told = jobs.iter().map(|job| News::Interrupt(job.ticket, StopReason::TimedOut));
    assert_eq!((news, lent_at.elapsed().as_secs()), (told.collect(), LIMIT.as_secs()));
    assert_eq!(foreign.exchange(vec![(jobs[0].ticket, failed())], 0).1.refused, 0);
    assert_eq!(foreign.news().await, [News::Evicted(jobs[1].ticket)]);
    assert_eq!(lent_at.elapsed().as_secs(), (LIMIT + GRACE).as_secs());
    let late = Outcome::Complete(None);
    assert_eq!(foreign.exchange(vec![(jobs[1].ticket, late)], 0).1.refused, 1);
    for id in ids {
        until(&store, id, JobState::Retryable).await;
    }
    engine.shutdown().await;
    let errors = [0, 1].map(|n: usize| store.model().errors(ids[n]).remove(0));
    assert_eq!(errors[0], "timeout after 60s: stopped");
    assert_eq!(errors[1], "timeout after 60s: the handler went on for 5s more and was dropped");
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_or_expires_before_it_is_lent_is_never_lent() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let expiring = enqueue(&store, |job| job.with_expiry(LIMIT), 0);
    let cancelled = enqueue(&store, |job| job, 0);
    let (engine, foreign) = (start(&store, config(2), &lender).await, Foreign::new(&lender));
    while lender.offered() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    store.cancel(&[cancelled]).await.unwrap();
    until(&store, cancelled, JobState::Cancelled).await;
    sleep(LIMIT).await;
    assert!(foreign.exchange(Vec::new(), 9).0.is_empty());
    until(&store, expiring, JobState::Cancelled).await;
    engine.shutdown().await;
    let reason = store.model().job(expiring).reason.unwrap();
    assert!(reason.starts_with("expired: it was not started by"), "{reason}");
}

/// A worker that stops gives back what nobody has taken, and what was claimed meanwhile; whoever has a job may finish it.
#[tokio::test(start_paused = true)]
async fn what_nobody_took_goes_back_when_the_worker_stops() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 3);
    let (engine, foreign) = (start(&store, config(3), &lender).await, Foreign::new(&lender));
    let taken = foreign.take(1).await;
    while lender.offered() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    lender.serve(&engine);
    engine.stop();
    while lender.offered() > 0 {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(foreign.exchange(Vec::new(), 9).0.is_empty(), "it was lent after the stop");
    foreign.complete(&taken);
    engine.wait().await;
    let mut jobs: Vec<_> = ids.iter().map(|id| store.model().job(*id)).collect();
    let done = jobs.remove(0);
    assert_eq!((done.id, done.state), (taken[0].context.id(), JobState::Completed));
    assert!(jobs.iter().all(|job| job.state == JobState::Available && job.attempt == 0), "{jobs:?}");
}

/// A worker that is to drain does the same, however long what was taken goes on.
#[tokio::test(start_paused = true)]
async fn what_nobody_took_goes_back_when_the_worker_is_to_drain() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 5);
    let (engine, foreign) = (start(&store, config(5), &lender).await, Foreign::new(&lender));
    lender.serve(&engine);
    let taken = foreign.take(1).await;
    while lender.offered() < 4 {
        sleep(Duration::from_millis(10)).await;
    }
    store.drain_worker(WorkerId(1)).await.unwrap();
    for id in &ids[1..] {
        until(&store, *id, JobState::Available).await;
    }
    let waited = Instant::now();
    while waited.elapsed() < 10 * LIMIT {
        assert!(foreign.exchange(Vec::new(), 9).0.is_empty(), "it was lent after the drain");
        sleep(LIMIT).await;
    }
    assert_eq!(engine.stats().running, 1);
    foreign.complete(&taken);
    engine.wait().await;
    assert_eq!(store.model().job(taken[0].context.id()).state, JobState::Completed);
    assert!(ids[1..].iter().all(|id| store.model().job(*id).attempt == 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_takes_its_jobs_away_and_refuses_what_comes_of_them() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let id = store.add("q", "lent", 1)[0];
    let config = WorkerConfig { lease: Duration::from_secs(3), ..config(2) };
    let (engine, foreign) = (start(&store, config, &lender).await, Foreign::new(&lender));
    let lost = foreign.take(1).await.remove(0);
    store.model().end_lease(WorkerId(1));
    assert_eq!(foreign.news().await, [News::Interrupt(lost.ticket, StopReason::LeaseLost)]);
    assert_eq!(foreign.news().await, [News::Evicted(lost.ticket)]);
    assert_eq!(foreign.exchange(vec![(lost.ticket, Outcome::Discard("late".into()))], 0).1.refused, 1);
    let again = foreign.take(1).await;
    assert_eq!(again[0].context.lease().worker, WorkerId(2), "under the next registration");
    foreign.complete(&again);
    until(&store, id, JobState::Completed).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_grace_period_then_takes_all_back() {
    let (store, lender) = (FakeStore::new(), Lender::new());
    let ids = store.add("q", "lent", 4);
    let config = WorkerConfig { grace_period: LIMIT, ..config(4) };
    let (engine, foreign) = (start(&store, config, &lender).await, Foreign::new(&lender));
    let jobs = foreign.take(3).await;
    while lender.offered() < 1 {
        sleep(Duration::from_millis(10)).await;
    }
    engine.stop();
    sleep(LIMIT / 2).await;
    foreign.complete(&jobs[..1]);
    let mut news = Vec::new();
    while news.len() < 2 {
        news.extend(foreign.news().await);
    }
    let told = jobs[1..].iter().map(|job| News::Interrupt(job.ticket, StopReason::WorkerStops));
    assert_eq!(news, told.collect::<Vec<_>>());
    assert_eq!(foreign.exchange(vec![(jobs[1].ticket, failed())], 9).1.refused, 0);
    assert_eq!(foreign.news().await, [News::Evicted(jobs[2].ticket)]);
    engine.wait().await;
    until(&store, ids[0], JobState::Completed).await;
    for id in &ids[1..] {
        let job = store.model().job(*id);
        assert_eq!((job.state, job.attempt), (JobState::Available, 0), "handed back, no attempt used");
    }
}
