//! What a worker logs of its jobs.

use crate::log::Log;
use std::{sync::Arc, time::Duration};
use windlass::{Args, Client, Job, NewJob, RawJob, Worker};
use windlass_memory::MemoryStore;

const LONG: Duration = Duration::from_secs(60);

fn memory() -> Client {
    Client::from_store(Arc::new(MemoryStore::new()))
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(kind = "mail.send", queue = "mail", max_attempts = 2, backoff = "fixed:1ms")]
struct Mail;

#[tokio::test]
async fn failed_attempts_are_logged() {
    let log = Log::default();
    let _guard = log.keep(tracing::Level::WARN);
    let client = memory();
    let id = client.enqueue(Mail).await.unwrap();
    let worker = Worker::builder(&client).handle(|_: Mail| async { Err::<(), _>("no\nroute") }).start().await;
    let worker = worker.unwrap();
    client.wait(id, LONG).await.unwrap();
    worker.shutdown().await;
    let text = log.text();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("mail.send")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("an attempt failed") && lines[0].contains("attempt=1"), "{text}");
    assert!(lines[1].contains("failed for good") && lines[1].contains(&format!("job={id}")), "{text}");
    assert!(lines.iter().all(|line| line.contains(r#"error="no\nroute""#)), "one line each: {text}");
}

#[tokio::test]
async fn a_kind_without_a_handler_is_told_of_once() {
    let log = Log::default();
    let _guard = log.keep(tracing::Level::WARN);
    let client = memory();
    let job = |kind: &'static str| NewJob::new(kind, Args::of(&()).unwrap());
    client.enqueue_many([job("unknown"), job("unknown"), job("other")]).await.unwrap();
    let last = client.enqueue(job("known")).await.unwrap();
    let handler = |_: RawJob| async {};
    let worker = Worker::builder(&client).handle_kind("known", handler).start().await.unwrap();
    client.wait(last, LONG).await.unwrap();
    worker.shutdown().await;
    let text = log.text();
    assert_eq!(text.matches("has no handler for jobs of this kind").count(), 2, "{text}");
}

/// Without a queue of its own choice a worker takes what the types of its jobs name; with one it says what that leaves out.
#[tokio::test]
async fn a_worker_that_takes_from_other_queues_than_its_jobs_name_says_so() {
    let log = Log::default();
    let _guard = log.keep(tracing::Level::WARN);
    let client = memory();
    let id = client.enqueue(Mail).await.unwrap();
    let worker = Worker::builder(&client).handle(|_: Mail| async {}).start().await.unwrap();
    client.wait(id, LONG).await.unwrap();
    worker.shutdown().await;
    assert_eq!(log.text(), "");
    let builder = Worker::builder(&client).handle(|_: Mail| async {}).queue("default", 1);
    builder.start().await.unwrap().shutdown().await;
    let text = log.text();
    assert!(text.contains("mail.send") && text.contains("queue=\"mail\""), "{text}");
}
