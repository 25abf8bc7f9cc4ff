use super::site::{Answer, Site};
use crate::Role;
use serde_json::{Value, json};
use windlass::{Args, Client, NewJob, Schedule};

pub(super) fn nightly() -> Schedule {
    Schedule::new("nightly", "@daily", NewJob::new("report", Args::parse("{}").unwrap()))
}

pub(super) async fn again(site: &Site, role: Role, path: &str, key: &str, body: Value) -> Answer {
    let bearer = format!("Bearer {}", site.token(role));
    site.send("POST", path, &[("authorization", &bearer), ("idempotency-key", key)], body).await
}

pub(super) fn is_replay(answer: &Answer) -> bool {
    answer.headers.contains_key("idempotent-replayed")
}

async fn count(client: &Client) -> usize {
    client.jobs(&Default::default()).await.unwrap().len()
}

#[tokio::test]
async fn a_schedule_is_run_once_for_a_key() {
    for site in Site::all_stores().await {
        site.client.schedules().put([nightly()]).await.unwrap();
        let run = async |key| again(&site, Role::Operator, "/schedules/nightly/run", key, Value::Null).await;
        // Both at the same time, and once more after it.
        let (one, other) = tokio::join!(run("a"), run("a"));
        let third = run("a").await;
        assert_eq!([&one, &other, &third].map(is_replay).iter().filter(|replay| **replay).count(), 2);
        let ids = [one, other, third].map(|answer| answer.is(200));
        assert!(ids[0] == ids[1] && ids[1] == ids[2], "{ids:?}");
        assert_eq!(count(&site.client).await, 1);
        assert!(run("b").await.is(200) != ids[0]);
        assert_eq!(count(&site.client).await, 2);
        // Others have their own keys, and what was done once is audited once.
        again(&site, Role::Admin, "/schedules/nightly/run", "a", Value::Null).await.is(200);
        assert_eq!(count(&site.client).await, 3);
        let audited = site.ask(Role::Admin, "GET", "/audit?action=schedules.run", Value::Null).await.is(200);
        assert_eq!(audited["items"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_mark_is_set_once_for_a_key() {
    let site = Site::in_memory();
    for _ in 0..2 {
        let answer = again(&site, Role::Operator, "/marks", "v7", json!({ "label": "v7" })).await;
        assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    }
    assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_refused_is_tried_again() {
    let site = Site::in_memory();
    let run = async || again(&site, Role::Operator, "/schedules/nightly/run", "a", Value::Null).await;
    run().await.refused(404, "not_found");
    site.client.schedules().put([nightly()]).await.unwrap();
    run().await.is(200);
    // Who may not any more gets no answer of before.
    again(&site, Role::Viewer, "/schedules/nightly/run", "a", Value::Null)
        .await
        .refused(403, "permission_denied");
    let long = "x".repeat(201);
    for key in ["", long.as_str()] {
        again(&site, Role::Operator, "/schedules/nightly/run", key, Value::Null)
            .await
            .refused(422, "invalid_option");
    }
}

#[tokio::test]
async fn a_key_is_of_one_body() {
    let site = Site::in_memory();
    let mark =
        async |label: &str| again(&site, Role::Operator, "/marks", "v7", json!({ "label": label })).await;
    // One that is refused takes no key.
    mark("").await.refused(422, "invalid_option");
    assert_eq!(mark("v7").await.status, 204);
    let other = mark("v8").await.refused(422, "idempotency_key_reused");
    assert!(!is_replay(&other));
    assert_eq!(mark("v7").await.headers["idempotent-replayed"], "true");
    assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 1);
    // What is too large is not read to see whether it is the same.
    let large = "x".repeat(1 << 20);
    mark(&large).await.refused(413, "too_large");
}

#[tokio::test]
async fn of_two_bodies_at_once_under_a_key_one_is_done() {
    for site in Site::all_stores().await {
        let mark =
            async |label: &str| again(&site, Role::Operator, "/marks", "v7", json!({ "label": label })).await;
        let (one, other) = tokio::join!(mark("v7"), mark("v8"));
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 422], "{}: {one:?} {other:?}", site.name().await);
        assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 1);
    }
}

/// What was stored once counts once in the audit log.
#[tokio::test]
async fn a_repeated_enqueue_is_noted_as_one_of_nothing() {
    for site in Site::all_stores().await {
        let jobs = json!({"jobs": [{"kind": "a"}, {"kind": "b"}]});
        for _ in 0..2 {
            again(&site, Role::Operator, "/jobs", "order/42", jobs.clone()).await.is(201);
        }
        let noted = site.ask(Role::Admin, "GET", "/audit?action=jobs.enqueue", Value::Null).await.is(200);
        let counts: Vec<_> = noted["items"].as_array().unwrap().iter().map(|entry| &entry["count"]).collect();
        assert_eq!(counts, [&json!(0), &json!(2)], "{}", site.name().await);
    }
}

/// A repeated call could have one of them alone, and would then be done once more.
#[tokio::test]
async fn two_keys_are_refused() {
    let site = Site::in_memory();
    let bearer = format!("Bearer {}", site.token(Role::Operator));
    for (path, body) in [("/jobs", json!({"jobs": [{"kind": "a"}]})), ("/marks", json!({"label": "v7"}))] {
        let headers =
            [("authorization", bearer.as_str()), ("idempotency-key", "a"), ("idempotency-key", "b")];
        site.send("POST", path, &headers, body.clone()).await.refused(422, "invalid_option");
        let headers =
            [("authorization", bearer.as_str()), ("idempotency-key", "a"), ("idempotency-key", "a")];
        assert!(site.send("POST", path, &headers, body).await.status < 300);
    }
    assert_eq!(site.get("/jobs").await.is(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 1);
}
