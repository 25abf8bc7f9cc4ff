//! Waiting for jobs to end, the same over every store.

use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};
use windlass::{Args, Client, ErrorKind, JobId, JobState, NewJob, Outcome, RawJob, Worker};

const PATIENCE: Duration = Duration::from_secs(60);

/// Many wait at once for jobs that end in every way, over a client that does not work them.
pub(crate) async fn many_wait(working: &Client, waiting: &Client, jobs: usize) {
    let error = waiting.wait(JobId(i64::MAX), PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let new = |n: usize| NewJob::new("work", Args::of(&n).unwrap()).with_max_attempts(1);
    let ids = waiting.enqueue_many((0..jobs).map(new)).await.unwrap();
    assert!(waiting.wait(ids[0], Duration::from_millis(1)).await.unwrap().is_none(), "nobody works yet");
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let worker = Worker::builder(working)
        .queue("default", 50)
        .handle_kind("work", move |job: RawJob| {
            let gate = Arc::clone(&opened);
            async move {
                drop(gate.acquire().await);
                match job.parse::<usize>() {
                    Ok(n) if n % 4 == 1 => Outcome::Cancel("unwanted".into()),
                    Ok(n) if n % 4 == 2 => Outcome::Retry { after: None, error: "failed".into() },
                    Ok(n) if n % 4 == 3 => Outcome::complete_with(&n),
                    _ => Outcome::Complete(None),
                }
            }
        })
        .start()
        .await
        .unwrap();
    let mut waiters = JoinSet::new();
    for (n, id) in ids.iter().copied().enumerate() {
        let waiting = waiting.clone();
        waiters.spawn(async move { (n, waiting.wait(id, PATIENCE).await.unwrap().expect("it ends")) });
    }
    // A job that nobody works until it is cancelled.
    let elsewhere = waiting.enqueue(new(0).with_queue("elsewhere")).await.unwrap();
    let other = waiting.clone();
    let cancelled =
        tokio::spawn(async move { other.wait(elsewhere, PATIENCE).await.unwrap().expect("it ends") });
    gate.add_permits(1_000_000);
    while let Some(ended) = waiters.join_next().await {
        let (n, job) = ended.unwrap();
        let expected = match n % 4 {
            1 => JobState::Cancelled,
            2 => JobState::Discarded,
            _ => JobState::Completed,
        };
        assert_eq!((job.id, job.state), (ids[n], expected));
        assert_eq!(job.result.map(|result| result.as_str().to_owned()), (n % 4 == 3).then(|| n.to_string()));
    }
    waiting.cancel(&[elsewhere]).await.unwrap();
    assert_eq!(cancelled.await.unwrap().state, JobState::Cancelled);
    assert!(waiting.wait(ids[0], PATIENCE).await.unwrap().is_some(), "it had ended before");
    worker.shutdown().await;
}
