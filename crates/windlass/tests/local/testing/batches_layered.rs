//! Batches with what runs around each of their jobs: layers, timeouts, encryption.

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use windlass::{
    Batch, Client, Context, Job, JobState, Next, Outcome, Outcomes, Worker, WorkerBuilder, testing,
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize, Job, Debug)]
#[job(kind = "row", max_attempts = 1, timeout = "1m")]
struct Row(u32);

/// The sizes of batches, and what a layer saw.
type Sizes = Arc<Mutex<Vec<usize>>>;

fn worker(client: &Client, takes: Duration) -> (WorkerBuilder, Sizes) {
    let sizes = Sizes::default();
    let seen = Arc::clone(&sizes);
    let insert = move |rows: Batch<Row>| {
        seen.lock().unwrap().push(rows.len());
        async move {
            sleep(takes).await;
            rows.iter().map(|row| Outcome::complete_with(&row.args.0)).collect::<Vec<_>>()
        }
    };
    (Worker::builder(client).handle_batch(10, SECOND, insert), sizes)
}

async fn three(client: &Client) {
    client.enqueue_many([Row(1), Row(2), Row(3)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn layers_run_around_each_job() {
    let client = testing::client();
    three(&client).await;
    let (builder, sizes) = worker(&client, SECOND);
    let layer = |job: Context, next: Next| async move {
        if next.args() == b"2" {
            return Outcome::Cancel("not this one".into());
        }
        sleep(job.id().0 as u32 * SECOND / 10).await; // they come one after another
        match next.run().await {
            Outcome::Complete(Some(result)) => {
                Outcome::complete_with(&format!("layered {}", result.as_str()))
            }
            other => other,
        }
    };
    let report = testing::drain(builder.layer(layer)).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [2]);
    assert_eq!(report.count(JobState::Completed), 2);
    assert_eq!(report.attempts[1].state, JobState::Cancelled);
    assert_eq!(report.attempts[2].result.as_ref().unwrap().as_str(), "\"layered 3\"");
}

/// A layer that lets one job through at a time makes batches of one out of it, and stops nothing.
#[tokio::test(start_paused = true)]
async fn a_layer_that_holds_jobs_up_for_one_another_ends() {
    let client = testing::client();
    three(&client).await;
    let (builder, sizes) = worker(&client, SECOND);
    let one = Arc::new(Semaphore::new(1));
    let layer = move |_: Context, next: Next| {
        let one = Arc::clone(&one);
        async move {
            let _permit = one.acquire_owned().await.unwrap();
            next.run().await
        }
    };
    testing::drain(builder.layer(layer)).await.unwrap().assert_completed();
    assert_eq!(*sizes.lock().unwrap(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_layer_may_give_up_on_its_job_or_run_it_elsewhere_or_panic() {
    let client = testing::client();
    client.enqueue_many([Row(1), Row(2), Row(3), Row(4)]).await.unwrap();
    let (builder, sizes) = worker(&client, 10 * SECOND);
    let layer = |_: Context, next: Next| async move {
        match next.args() {
            b"1" => timeout(SECOND, next.run()).await.unwrap_or(Outcome::Cancel("gave up".into())),
            b"2" => tokio::spawn(next.run()).await.unwrap(),
            b"3" => panic!("a layer's own"),
            _ => next.run().await,
        }
    };
    let report = testing::drain(builder.layer(layer)).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [3]);
    let states: Vec<_> = report.attempts.iter().map(|job| job.state).collect();
    use JobState::{Cancelled, Completed, Discarded};
    assert_eq!(states, [Cancelled, Completed, Discarded, Completed]);
    assert_eq!(report.attempts[0].reason.as_deref(), Some("gave up"));
    assert_eq!(report.attempts[2].errors[0].error, "handler panicked: a layer's own");
}

#[tokio::test(start_paused = true)]
async fn a_batch_out_of_time_is_seen_by_layers_as_such() {
    let client = testing::client();
    three(&client).await;
    let (builder, _) = worker(&client, 3600 * SECOND);
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let layer = move |_: Context, next: Next| {
        let seen = Arc::clone(&seen);
        async move {
            let outcome = next.run().await;
            seen.lock().unwrap().push(outcome.clone());
            outcome
        }
    };
    let report = testing::drain(builder.layer(layer)).await.unwrap();
    let error = "timeout after 60s: the handler went on for 5s more and was dropped";
    assert!(report.attempts.iter().all(|job| job.errors[0].error == error), "{report}");
    assert_eq!(*errors.lock().unwrap(), vec![Outcome::Retry { after: None, error: error.into() }; 3]);
}

#[tokio::test]
async fn a_suspect_runs_by_itself() {
    let store = testing::MemoryStore::new();
    let client = testing::client_of(&store);
    let ids = client.enqueue_many([Row(1), Row(2), Row(3)]).await.unwrap();
    assert!(store.set_counts(ids[1], 0, 2));
    let (builder, sizes) = worker(&client, Duration::ZERO);
    testing::drain(builder).await.unwrap().assert_completed();
    assert_eq!(*sizes.lock().unwrap(), [1, 2]);
}

#[cfg(feature = "encryption")]
#[tokio::test]
async fn encrypted_jobs_are_opened_and_their_results_sealed() {
    use windlass::{Args, Keyring, NewJob};

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "login", max_attempts = 1, encrypted)]
    struct Login(String);

    let client = testing::client().with_keyring(Keyring::new("k1", [1; 32]).unwrap());
    let id = client.enqueue(Login("ada".into())).await.unwrap();
    let plain = NewJob::new("login", Args::of("bob").unwrap()).with_max_attempts(1);
    client.enqueue(plain).await.unwrap();
    let check = |logins: Batch<Login>| async move {
        let mut outcomes = Outcomes::default();
        for login in &logins {
            login.ctx.checkpoint(&login.args.0).await.unwrap();
            outcomes.set(login.id(), Outcome::complete_with(&login.args.0));
        }
        outcomes
    };
    let report = testing::drain(Worker::builder(&client).handle_batch(10, SECOND, check)).await.unwrap();
    assert_eq!((report.count(JobState::Completed), report.count(JobState::Discarded)), (1, 1));
    assert!(!report.attempts[0].result.as_ref().unwrap().as_str().contains("ada"));
    assert!(report.attempts[1].errors[0].error.contains("are encrypted"), "{report}");
    assert_eq!(client.result::<String>(id).await.unwrap().as_deref(), Some("ada"));
}
