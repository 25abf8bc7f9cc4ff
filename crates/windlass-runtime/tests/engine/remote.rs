//! A worker that runs elsewhere, while the store answers late.

use crate::fake::{Call, FakeStore, Fault};
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::{Args, ErrorKind, JobState, JobStore, NewJob};
use windlass_runtime::remote::{QueueConfig, RemoteSpec, RemoteWorker};

/// Longer than an encrypted job waits for somebody who can open it.
const LONG: Duration = Duration::from_secs(100);

/// What is to be settled of a job was settled, and is to be again of another claim of it, before the first answer is there.
#[tokio::test(start_paused = true)]
async fn what_is_to_be_settled_of_a_job_again_is_not_taken_for_settled() {
    let store = FakeStore::new();
    let queues = vec![QueueConfig { queue: "q".to_owned(), concurrency: 1 }];
    let spec = RemoteSpec { name: "r".to_owned(), queues, lease: 10 * LONG, ..RemoteSpec::default() };
    let worker = RemoteWorker::register(store.shared(), spec).await.unwrap();
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
