use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass::{
    Attempt, Client, Data, ErrorKind, Job, JobState, KeyLimit, RateLimit, Worker, WorkerBuilder, testing,
};

#[derive(Serialize, Deserialize, Job, Debug)]
#[job(queue = "sync", key = "tenant")]
struct Sync {
    tenant: String,
    page: u32,
}

fn sync(tenant: &str, page: u32) -> Sync {
    Sync { tenant: tenant.into(), page }
}

type Seen = Arc<Mutex<Vec<(String, u32)>>>;

/// What ran in which order; page 1 of `a` fails the first time.
fn worker(client: &Client) -> (WorkerBuilder, Seen) {
    let seen = Seen::default();
    let run = |sync: Sync, attempt: Attempt, seen: Data<Seen>| async move {
        seen.lock().unwrap().push((sync.tenant.clone(), sync.page));
        match (sync.tenant.as_str(), sync.page, attempt.number) {
            ("a", 1, 1) => Err("busy"),
            _ => Ok(()),
        }
    };
    (Worker::builder(client).queue("sync", 5).handle(run).data(Arc::clone(&seen)), seen)
}

fn of(seen: &Seen, tenant: &str) -> Vec<u32> {
    seen.lock().unwrap().iter().filter(|(of, _)| of == tenant).map(|(_, page)| *page).collect()
}

#[tokio::test]
async fn the_key_of_a_kind_is_a_field_unless_the_enqueue_says_otherwise() {
    let client = testing::client();
    let derived = client.enqueue(sync("a", 1)).await.unwrap();
    let said = client.enqueue_with(sync("a", 1), |job| job.with_key("b")).await.unwrap();
    for (id, key) in [(derived, "a"), (said, "b")] {
        assert_eq!(client.job(id).await.unwrap().unwrap().key.as_deref(), Some(key));
    }
}

#[tokio::test]
async fn a_drain_keeps_to_the_order_of_serial_keys() {
    let client = testing::client();
    client.limit_keys("sync", KeyLimit::serial()).await.unwrap();
    for page in 1..=3 {
        client.enqueue_many([sync("a", page), sync("b", page)]).await.unwrap();
    }
    let (builder, seen) = worker(&client);
    let report = testing::drain(builder).await.unwrap();
    assert_eq!((of(&seen, "a"), of(&seen, "b")), (vec![1], vec![1, 2, 3]));
    let mut left: Vec<_> = report.left.iter().map(|job| job.state).collect();
    left.sort_unstable_by_key(|state| state.to_string());
    assert_eq!(left, [JobState::Available, JobState::Available, JobState::Retryable]);
    let (builder, seen) = worker(&client);
    testing::drain(builder).until_done().await.unwrap().assert_completed();
    assert_eq!(of(&seen, "a"), [1, 2, 3]);
}

#[tokio::test]
async fn a_drain_gives_each_key_its_turn() {
    let client = testing::client();
    client.limit_keys("sync", KeyLimit::default()).await.unwrap();
    client.enqueue_many((2..22).map(|page| sync("noisy", page))).await.unwrap();
    client.enqueue_many([sync("quiet", 1), sync("quiet", 2)]).await.unwrap();
    let (builder, seen) = worker(&client);
    testing::drain(builder).await.unwrap().assert_completed();
    let last = seen.lock().unwrap().iter().rposition(|(tenant, _)| tenant == "quiet").unwrap();
    assert!(last < 5, "{seen:?}");
}

#[tokio::test]
async fn a_drain_keeps_to_the_rates_of_keys() {
    let client = testing::client();
    let hour = Duration::from_secs(3600);
    client.limit_keys("sync", KeyLimit::default().with_rate(RateLimit::new(2, hour))).await.unwrap();
    client.enqueue_many((2..7).map(|page| sync("a", page))).await.unwrap();
    client.enqueue(sync("b", 2)).await.unwrap();
    let (builder, seen) = worker(&client);
    let report = testing::drain(builder).await.unwrap();
    assert_eq!((of(&seen, "a"), of(&seen, "b"), report.left.len()), (vec![2, 3], vec![2], 3));
    let began = testing::clock(&client).now();
    let (builder, seen) = worker(&client);
    testing::drain(builder).until_done().await.unwrap().assert_completed();
    assert_eq!(of(&seen, "a"), [4, 5, 6]);
    let took = Duration::try_from(testing::clock(&client).now().duration_since(began)).unwrap();
    assert!(took > hour * 2 - Duration::from_secs(60), "the clock moved by {took:?}");
}

#[tokio::test]
async fn limits_of_keys_are_set_shown_and_taken_away() {
    let client = testing::client();
    assert_eq!(client.key_limits("sync").await.unwrap(), None);
    client.limit_keys("sync", KeyLimit::default().with_concurrency(2)).await.unwrap();
    client.limit_key("sync", "a", KeyLimit::serial()).await.unwrap();
    let limits = client.key_limits("sync").await.unwrap().unwrap();
    assert_eq!((limits.of("a"), limits.of("b").concurrency), (KeyLimit::serial(), Some(2)));
    client.unlimit_key("sync", "a").await.unwrap();
    assert!(client.key_limits("sync").await.unwrap().unwrap().named.is_empty());
    let error = client.limit_key("sync", "", KeyLimit::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    client.unlimit_keys("sync").await.unwrap();
    assert_eq!(client.key_limits("sync").await.unwrap(), None);
}
