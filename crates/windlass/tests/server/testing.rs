//! The helpers for tests of users, on a test database.

use windlass::{
    Client, ConnectOptions, Data, Error, Job, JobState, Outcome, Worker, WorkerBuilder,
    testing::{assert_enqueued, assert_not_enqueued, drain},
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Count(u32);

impl Job for Count {
    const KIND: &'static str = "count";
    const MAX_ATTEMPTS: u16 = 2;
}

/// 3 enqueues 2, which enqueues 1, which fails.
fn worker(client: &Client) -> WorkerBuilder {
    let count = |Count(number): Count, client: Data<Client>| async move {
        match number {
            0 => Ok(Outcome::Snooze(std::time::Duration::from_secs(3600))),
            1 => Err(Error::new(windlass::ErrorKind::NotFound, "nothing to count")),
            _ => client.enqueue(Count(number - 1)).await.map(|id| Outcome::complete_with(&id)),
        }
    };
    Worker::builder(client).data(client.clone()).handle(count)
}

#[tokio::test]
async fn a_test_database_is_drained_and_asserted_on() {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `scripts/with-postgres cargo test -p windlass`");
    let options = ConnectOptions::default().with_schema("facade_testing");
    let client = Client::connect_with(&url, options).await.unwrap();
    client.migrate().await.unwrap();
    client.enqueue_many([Count(3), Count(0)]).await.unwrap();
    assert_enqueued!(client, Count(3));
    let report = drain(worker(&client)).await.unwrap();
    let states: Vec<JobState> = report.attempts.iter().map(|job| job.state).collect();
    let completed = JobState::Completed;
    assert_eq!(states, [completed, JobState::Scheduled, completed, JobState::Retryable], "{report}");
    let failed = &report.attempts[3];
    assert_eq!(failed.errors[0].error, "nothing to count");
    assert_not_enqueued!(client, Count(2..));
    assert_eq!(assert_enqueued!(client, Count).len(), 2);
    client.retry(&[failed.id]).await.unwrap();
    let report = drain(worker(&client)).at_most(1).await.unwrap();
    assert_eq!((report.count(JobState::Discarded), report.left.len()), (1, 1), "{report}");
    client.close().await;
}
