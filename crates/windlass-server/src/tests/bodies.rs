//! Large bodies of many requests at once: those beyond the memory that there is for them wait, and are refused when that takes long.

use super::site::{Answer, Site};
use crate::Role;
use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::{Value, json};
use std::{convert::Infallible, time::Duration};
use tokio::{
    sync::mpsc::{self, Sender},
    time::{Instant, sleep, timeout},
};
use windlass::testing;

/// What bodies may take, in bytes.
const ROOM: usize = 1 << 20;

fn site() -> Site {
    Site::of(testing::client(), |builder| builder.body_memory(ROOM))
}

/// A job with args of about so many bytes.
fn jobs(bytes: usize) -> String {
    json!({"jobs": [{"kind": "a", "args": "x".repeat(bytes), "queue": "mail"}]}).to_string()
}

async fn post(site: &Site, path: &str, more: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let role = if path.starts_with("/work") { Role::Worker } else { Role::Operator };
    let bearer = format!("Bearer {}", site.token(role));
    let headers =
        [&[("authorization", bearer.as_str()), ("content-type", "application/json")], more].concat();
    site.send_text("POST", path, &headers, body).await
}

/// A body of which nobody says how long it is, and that comes when it is told to.
fn coming() -> (Sender<String>, Body) {
    let (tell, parts) = mpsc::channel::<String>(1);
    let next = |mut parts: mpsc::Receiver<String>| async move {
        let part = parts.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(part)), parts))
    };
    (tell, Body::from_stream(stream::unfold(parts, next)))
}

#[tokio::test(start_paused = true)]
async fn who_would_send_more_than_fits_waits_and_is_told() {
    let site = site();
    let (tell, body) = coming();
    let slow = post(&site, "/api/v1/jobs", &[], body);
    let others = async {
        // When the second is on its way the first was read.
        for _ in 0..2 {
            tell.send(" ".to_owned()).await.unwrap();
        }
        let more = tell.clone();
        let goes_on = tokio::spawn(async move {
            while more.send(" ".to_owned()).await.is_ok() {
                sleep(Duration::from_secs(2)).await;
            }
        });
        // Short ones wait for nobody, and what is read has no body.
        let began = Instant::now();
        post(&site, "/api/v1/jobs", &[], jobs(1_000)).await.is(201);
        assert_eq!(site.get("/jobs").await.is(200)["items"].as_array().unwrap().len(), 1);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        for more in [&[][..], &[("idempotency-key", "once")]] {
            let answer = post(&site, "/api/v1/jobs", more, jobs(100_000)).await.refused(503, "too_many");
            assert_eq!(answer.headers["retry-after"], "5");
            assert!(
                answer.text.contains("1048576") && answer.text.contains("nothing was done"),
                "{}",
                answer.text
            );
        }
        assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());
        goes_on.abort();
        // There is room as soon as it is read how much it is.
        tell.send(jobs(5)).await.unwrap();
        drop(tell);
        post(&site, "/api/v1/jobs", &[], jobs(900_000)).await.is(201);
    };
    let (slow, ()) = tokio::join!(slow, others);
    slow.is(201);
    assert_eq!(site.get("/jobs").await.is(200)["items"].as_array().unwrap().len(), 3);
}

/// `"what": [item, item, ...`, and then what is no JSON: what is refused before that was not read.
fn endless(what: &str, item: &str, count: usize) -> String {
    format!("{what}[{} and what is no JSON", format!("{item},").repeat(count))
}

/// Of 16 MiB of them a server made half a gigabyte before it refused them.
#[tokio::test]
async fn what_is_too_much_is_refused_before_it_is_read() {
    let site = Site::in_memory();
    let worker = post(&site, "/work/v1/workers", &[], r#"{"queues": {"mail": 5}}"#).await.is(201);
    let turn = format!("/work/v1/workers/{}/turn", worker["worker"].as_str().unwrap());
    let beat = turn.replace("/turn", "/beat");
    for (path, what, item, count, pointer, says) in [
        (
            "/api/v1/jobs",
            r#"{"jobs":"#,
            r#"{"kind":"a"}"#,
            10_001,
            "/jobs",
            "one call enqueues 1 to 10000 jobs",
        ),
        (&turn, r#"{"reports":"#, r#"{"receipt":""}"#, 1_001, "/reports", "must be at most 1000, got more"),
        (&beat, r#"{"reports":"#, r#"{"receipt":""}"#, 1_001, "/reports", "must be at most 1000, got more"),
        (
            &turn,
            r#"{"reports":[{"receipt":"","log":"#,
            "\"\"",
            101,
            "/reports/0/log",
            "must be at most 100 lines",
        ),
        (
            &turn,
            r#"{"done":"#,
            r#"{"receipt":"","outcome":"complete"}"#,
            10_001,
            "/done",
            "must be at most 10000",
        ),
    ] {
        let refused = post(&site, path, &[], endless(what, item, count)).await.refused(422, "invalid_option");
        let error = &refused.body["errors"][0];
        assert_eq!(error["pointer"], pointer);
        assert!(error["detail"].as_str().unwrap().starts_with(says), "{}", refused.text);
    }
    for (path, what, item) in [
        ("/api/v1/jobs", r#"{"jobs":[{"kind":"a","tags":"#, "\"\""),
        ("/api/v1/jobs", r#"{"jobs":[{"kind":"a","unique_fields":"#, "\"\""),
    ] {
        let refused =
            post(&site, path, &[], endless(what, item, 2_000_000)).await.refused(422, "invalid_option");
        assert!(refused.text.contains("too many values"), "{}", refused.text);
    }
    assert!(site.client.jobs(&Default::default()).await.unwrap().is_empty());
    // As many of the largest as there may be.
    let job = json!({"kind": "a", "queue": "mail", "args": {}, "priority": 1, "max_attempts": 2, "delay_ms": 1, "expires_in_ms": 9_999_999,
        "timeout_ms": 1, "key": "k", "meta": {}, "tags": (0..20).map(|n| n.to_string()).collect::<Vec<_>>(), "cost": 1});
    let enqueued = post(&site, "/api/v1/jobs", &[], json!({ "jobs": vec![job; 10_000] }).to_string()).await;
    assert_eq!(enqueued.status, 201, "{}", enqueued.text.chars().take(500).collect::<String>());
}

/// As of a client whose network is gone.
#[tokio::test(start_paused = true)]
async fn who_stops_sending_holds_no_room() {
    let site = site();
    let (tell, body) = coming();
    let stopped = post(&site, "/api/v1/jobs", &[], body);
    let other = async {
        for _ in 0..2 {
            tell.send(" ".to_owned()).await.unwrap();
        }
        post(&site, "/api/v1/jobs", &[], jobs(100_000)).await.is(201)
    };
    let (stopped, _) = tokio::join!(stopped, other);
    let stopped = stopped.refused(408, "timeout");
    assert!(stopped.text.contains("within 5 s; nothing was done"), "{}", stopped.text);
}

/// It is no failure of the server, which alerts count, and anybody can do it.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_the_clients_fault() {
    let site = site();
    let endless = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let headers = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
    let login = site.send_text("POST", "/api/v1/session", &headers, endless()).await.refused(408, "timeout");
    assert!(login.text.contains("within 25 s; nothing was done"), "{}", login.text);
    let id = site.enqueue("a", json!({})).await;
    let cancel = post(&site, &format!("/api/v1/jobs/{id}/cancel"), &[], endless()).await;
    cancel.refused(408, "timeout");
    let keyed = [("idempotency-key", "k")];
    post(&site, "/api/v1/bulk", &keyed, endless()).await.refused(408, "timeout");
    let body = json!({"action": "cancel", "ids": [id.to_string()]}).to_string();
    post(&site, "/api/v1/bulk", &keyed, body).await.is(201);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_longer_than_all_room_is_read_by_itself() {
    let site = site();
    let large = || post(&site, "/api/v1/jobs", &[], format!("{}{}", jobs(900_000), " ".repeat(5 << 20)));
    let answers = tokio::join!(large(), large(), large());
    for answer in [answers.0, answers.1, answers.2] {
        answer.is(201);
    }
}

/// Its body was read to see whether it is that of before, and is read once more.
#[tokio::test(start_paused = true)]
async fn a_body_takes_its_room_once() {
    let site = site();
    let ids: Vec<String> = (1..=9_000).map(|id| format!("{id:0>90}")).collect();
    let body = json!({"action": "cancel", "ids": ids}).to_string();
    assert!(body.len() > ROOM / 2 && body.len() < ROOM);
    for _ in 0..2 {
        let answer = post(&site, "/api/v1/bulk", &[("idempotency-key", "k")], body.clone()).await;
        answer.is(201);
    }
    post(&site, "/api/v1/jobs", &[], jobs(1_000_000)).await.is(201);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_holds_no_room() {
    let site = site();
    let worker = post(&site, "/work/v1/workers", &[], r#"{"queues": {"mail": 5}}"#).await.is(201);
    let path = format!("/work/v1/workers/{}/turn", worker["worker"].as_str().unwrap());
    let turn = post(&site, &path, &[], format!(r#"{{"wait_s": 30{}}}"#, " ".repeat(900_000)));
    let job = async {
        tokio::task::yield_now().await;
        post(&site, "/api/v1/jobs", &[], jobs(900_000)).await.is(201)
    };
    let (turn, _): (Answer, Value) =
        timeout(Duration::from_secs(9), async { tokio::join!(turn, job) }).await.unwrap();
    assert_eq!(turn.is(200)["jobs"].as_array().unwrap().len(), 1);
    site.server.close().await;
}
