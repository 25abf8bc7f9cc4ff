//! A worker that runs elsewhere, while the store answers late.

use crate::fake::{Call, FakeStore, Fault};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use windlass_core::{Args, ErrorKind, JobState, JobStore, NewJob, Outcome, TimingRequest, TimingStore};
use windlass_runtime::remote::{HandIn, QueueConfig, RemoteJob, RemoteSpec, RemoteWorker, Settled};

/// Longer than an encrypted job waits for somebody who can open it.
const LONG: Duration = Duration::from_secs(100);

async fn register(store: &FakeStore, concurrency: usize) -> Arc<RemoteWorker> {
    let queues = vec![QueueConfig { queue: "q".to_owned(), concurrency }];
    let spec = RemoteSpec { name: "r".to_owned(), queues, lease: 10 * LONG, ..RemoteSpec::default() };
    RemoteWorker::register(store.shared(), spec).await.unwrap()
}

/// What is to be settled of a job was settled, and is to be again of another claim of it, before the first answer is there.
#[tokio::test(start_paused = true)]
async fn what_is_to_be_settled_of_a_job_again_is_not_taken_for_settled() {
    let store = FakeStore::new();
    let worker = register(&store, 1).await;
    let encrypted = NewJob::new("test", Args::parse(r#"{"windlass.enc":1}"#).unwrap()).with_queue("q");
    let id = store.model().enqueue(&[encrypted], 0).unwrap()[0];
    let mut settlements = 0;
    store.plan(move |call| {
        settlements += usize::from(call == Call::Settle);
        match (call, settlements) {
            (Call::Settle, 1) => {
                Fault::Late { before: Duration::ZERO, happens: true, after: 2 * LONG, error: None }
            }
            (Call::Settle, 3) => Fault::Fail(ErrorKind::Unavailable),
            _ => Fault::None,
        }
    });
    let losses = worker.losses();
    let first = tokio::spawn({
        let (worker, losses) = (worker.clone(), losses.clone());
        async move { worker.take(None, &losses).await }
    });
    sleep(LONG).await;
    assert_eq!(store.promote(1).await.unwrap().count, 1);
    assert!(
        worker.take(None, &losses).await.is_err(),
        "it is claimed again, and that it has to wait is not stored"
    );
    assert_eq!(store.model().job(id).state, JobState::Running);
    assert!(first.await.unwrap().unwrap().is_empty());
    assert!(worker.take(None, &losses).await.unwrap().is_empty());
    assert_eq!(store.model().job(id).state, JobState::Retryable);
    worker.end().await.unwrap();
}

/// How many attempts the store was told of.
async fn attempts_told(store: &FakeStore) -> u64 {
    let mut request = TimingRequest::last(Duration::from_secs(86_400));
    request.step = Duration::from_secs(86_400);
    let timings = store.timings(&request).await.unwrap();
    timings.timed.iter().map(|timed| timed.run.summary().count).sum()
}

/// A worker that settled some jobs, and no more since.
async fn settled_some(store: &FakeStore) -> Arc<RemoteWorker> {
    let worker = register(store, 3).await;
    store.add("q", "test", 3);
    let taken = worker.take(None, &worker.losses()).await.unwrap();
    let done = |job: &RemoteJob| HandIn { ticket: job.ticket, outcome: Outcome::Complete(None) };
    worker.settle(taken.iter().map(done).collect()).await.unwrap();
    assert_eq!(attempts_told(store).await, 0, "every ten seconds");
    worker
}

#[tokio::test(start_paused = true)]
async fn what_was_measured_is_told_by_who_only_waits_for_jobs_and_of_who_says_nothing() {
    for is_silent in [false, true] {
        let store = FakeStore::new();
        let worker = settled_some(&store).await;
        sleep(Duration::from_secs(10)).await;
        if is_silent {
            worker.tell_when_due();
        } else {
            worker.beat().await.unwrap();
        }
        sleep(Duration::from_millis(1)).await;
        assert_eq!(attempts_told(&store).await, 3, "silent: {is_silent}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_forgotten_leaves_what_was_measured() {
    let store = FakeStore::new();
    let worker = settled_some(&store).await;
    worker.tell_rest();
    drop(worker);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(attempts_told(&store).await, 3);
}

/// A settlement that the store cannot take for some seconds is no reason to give up what a worker did; one that it never takes costs that job alone.
#[tokio::test(start_paused = true)]
async fn a_job_is_given_up_only_when_the_store_goes_on_refusing_what_became_of_it() {
    let store = FakeStore::new();
    let worker = register(&store, 3).await;
    let jobs = store.add("q", "test", 3);
    let taken = worker.take(None, &worker.losses()).await.unwrap();
    let mut settlements = 0;
    store.plan(move |call| {
        settlements += usize::from(call == Call::Settle);
        let fails = call == Call::Settle && settlements <= 4;
        if fails { Fault::Fail(ErrorKind::Internal) } else { Fault::None }
    });
    let hand_in = |job: &RemoteJob, outcome| vec![HandIn { ticket: job.ticket, outcome }];
    let done = worker.settle(hand_in(&taken[0], Outcome::Complete(None))).await.unwrap();
    assert_eq!((done, store.model().job(jobs[0]).state), (vec![Settled::Accepted], JobState::Completed));

    store.come_back();
    store.model().unstorable = Some(jobs[1]);
    let failed = Outcome::Retry { after: None, error: "€".to_owned() };
    let mut both = hand_in(&taken[1], failed);
    both.extend(hand_in(&taken[2], Outcome::Complete(None)));
    assert_eq!(worker.settle(both).await.unwrap(), [Settled::Accepted; 2]);
    let states = [1, 2].map(|n: usize| store.model().job(jobs[n]).state);
    assert_eq!(states, [JobState::Discarded, JobState::Completed]);
    worker.end().await.unwrap();
}
