//! A paused queue with limits, the same over every store.

use std::time::Duration;
use windlass::{Args, Client, NewJob, Outcome, QueueLimits, QueueStats, RateLimit, RawJob, Worker};

const PATIENCE: Duration = Duration::from_secs(60);

async fn until(client: &Client, what: &str, reached: impl Fn(&QueueStats) -> bool) {
    let wait = async {
        while !client.queues().await.unwrap().iter().any(|queue| queue.name == "dear" && reached(queue)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "not reached: {what}");
}

/// What a worker holds behind a rate goes back when the queue is paused, and starts when it is resumed.
pub(crate) async fn what_was_claimed_ahead_goes_back(client: &Client) {
    let rate = RateLimit::new(10, Duration::from_secs(2));
    let limits = [QueueLimits::default(), QueueLimits::default().with_concurrency(5)];
    for (limits, done) in limits.into_iter().zip([0, 3]) {
        client.limit("dear", &limits.with_rate(rate)).await.unwrap();
        let job = NewJob::new("job", Args::parse("{}").unwrap()).with_queue("dear").with_cost(10);
        client.enqueue_many(vec![job; 3]).await.unwrap();
        let worker = Worker::builder(client)
            .queue("dear", 5)
            .handle_kind("job", async |_: RawJob| Outcome::Complete(None))
            .start()
            .await
            .unwrap();
        until(client, "one waits", |queue| (queue.completed, queue.running) == (done + 1, 1)).await;
        client.pause("dear").await.unwrap();
        until(client, "it goes back", |queue| queue.running == 0).await;
        let paused = client.queues().await.unwrap();
        let paused = paused.iter().find(|queue| queue.name == "dear").unwrap();
        assert_eq!((paused.completed, paused.available), (done + 1, 2), "it did not start");
        client.resume("dear").await.unwrap();
        until(client, "all done", |queue| queue.completed == done + 3).await;
        worker.shutdown().await;
    }
}
