use super::site::Site;
use axum::{body::Body, http::Request, response::Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tower::ServiceExt;
use windlass::{Client, StoreStatus, testing};
use windlass_core::{Store, wrap_store};

/// Counts how often the store is asked.
struct Counting {
    store: Arc<dyn Store>,
    asked: Arc<AtomicU64>,
}

wrap_store! {
    impl JobStore for Counting, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events wakeup close]

    async fn status(&self) -> windlass_core::Result<StoreStatus> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.store.status().await
    }
}

fn counted() -> (Site, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let store = Arc::clone(testing::client().store());
    let client = Client::from_store(Arc::new(Counting { store, asked: Arc::clone(&asked) }));
    (Site::of(client, |builder| builder), asked)
}

async fn listen(site: &Site, topics: &str) -> Response {
    listen_as(site, crate::Role::Viewer, topics).await
}

async fn listen_as(site: &Site, role: crate::Role, topics: &str) -> Response {
    let request = Request::get(format!("/api/v1/live?topics={topics}"))
        .header("authorization", format!("Bearer {}", site.token(role)))
        .body(Body::empty())
        .unwrap();
    let response = site.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response
}

/// The next event: its name and data. Comments are passed over.
async fn next(response: &mut Response) -> Option<(String, Value)> {
    loop {
        let frame = response.body_mut().frame().await?.unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        if let Some(data) = field("data:") {
            return Some((field("event:").unwrap_or_default(), serde_json::from_str(&data).unwrap()));
        }
        if let Some(retry) = field("retry:") {
            return Some(("retry".to_owned(), retry.parse::<u64>().unwrap().into()));
        }
    }
}

/// Lets pollers run: time is paused, and goes on by itself when nobody has anything to do.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn one_poller_asks_for_all_and_none_for_none() {
    let (site, asked) = counted();
    pass(Duration::from_secs(60)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(listen(&site, "overview").await);
    }
    for reader in &mut readers {
        assert_eq!(next(reader).await.unwrap().0, "overview");
    }
    pass(Duration::from_secs(10)).await;
    let count = asked.load(Ordering::Relaxed);
    assert!((2..=12).contains(&count), "asked {count} times for 20 readers in 10 s");
    readers.truncate(1);
    pass(Duration::from_secs(10)).await;
    assert!(asked.load(Ordering::Relaxed) > count, "the last reader is forgotten");
    readers.clear();
    pass(Duration::from_secs(2)).await;
    let count = asked.load(Ordering::Relaxed);
    pass(Duration::from_secs(600)).await;
    assert_eq!(asked.load(Ordering::Relaxed), count, "asked although nobody looks");
    // Somebody looks again.
    assert_eq!(next(&mut listen(&site, "overview").await).await.unwrap().0, "overview");
}

#[tokio::test(start_paused = true)]
async fn only_changes_are_told() {
    let (site, _) = counted();
    let id = site.enqueue("a", json!({"token": "hunter2"})).await;
    let mut stream = listen(&site, &format!("job:{id},queue:mail,queue:none")).await;
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(next(&mut stream).await.unwrap());
    }
    let of =
        |event: &str| first.iter().find(|(name, _)| name == event).map(|(_, data)| data.clone()).unwrap();
    assert_eq!((&of("job")["state"], &of("queue")["available"]), (&json!("available"), &json!(1)));
    assert_eq!(
        (&of("problem")["code"], &of("problem")["topic"]),
        (&json!("not_found"), &json!("queue:none"))
    );
    assert_eq!(of("job")["args"]["token"], "‹7 characters hidden›");
    // Nothing happens, so nothing is told.
    assert!(tokio::time::timeout(Duration::from_secs(10), next(&mut stream)).await.is_err());
    site.client.cancel(&[id]).await.unwrap();
    let mut after = [next(&mut stream).await.unwrap(), next(&mut stream).await.unwrap()];
    after.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!((&after[0].1["state"], &after[1].1["cancelled"]), (&json!("cancelled"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn streams_of_a_mounted_server_end_when_it_is_closed() {
    let (site, _) = counted();
    let mut stream = listen(&site, "overview").await;
    assert_eq!(next(&mut stream).await.unwrap().0, "overview");
    site.server.close().await;
    // The last thing that it says is when to come back.
    assert_eq!(next(&mut stream).await.unwrap().0, "retry");
    assert!(next(&mut stream).await.is_none());
    site.server.close().await;
}

#[tokio::test(start_paused = true)]
async fn readers_are_bounded_and_streams_end() {
    let (site, _) = counted();
    let mut readers = Vec::new();
    for _ in 0..crate::live::MOST_READERS / 2 {
        readers.push(listen_as(&site, crate::Role::Operator, "overview").await);
        readers.push(listen(&site, "overview").await);
    }
    site.get("/live?topics=overview").await.refused(503, "too_many");
    readers.pop();
    let mut last = listen(&site, "overview").await;
    assert_eq!(next(&mut last).await.unwrap().0, "overview");
    let ends = async { while next(&mut last).await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(1_000), ends)
        .await
        .expect("a stream ends after a quarter of an hour");
}
