use super::{Site, done};
use crate::{Access, Role, Server, tests::site::exchange};
use serde_json::{Value, json};
use windlass::JobState;

#[tokio::test]
async fn only_the_role_of_workers_works() {
    let site = Site::in_memory();
    let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
    let turn = format!("/{worker}/turn");
    for (method, path) in [("POST", ""), ("POST", turn.as_str()), ("DELETE", &turn[..turn.len() - 5])] {
        for role in Role::ALL.into_iter().filter(|role| *role != Role::Worker) {
            let refused = site.work_as(role, method, path, json!({})).await.refused(403, "permission_denied");
            assert!(refused.text.contains("windlass token NAME --role worker"), "{}", refused.text);
        }
        site.send_text(method, &format!("/work/v1/workers{path}"), &[], "")
            .await
            .refused(401, "unauthenticated");
    }
    // And it does nothing else.
    site.ask(Role::Worker, "GET", "/jobs", Value::Null).await.refused(403, "permission_denied");
    site.ask(Role::Worker, "POST", "/jobs", json!({ "jobs": [{ "kind": "a" }] }))
        .await
        .refused(403, "permission_denied");
    // Without an auth file there are no workers: whoever is on this machine only looks.
    let server = Server::builder(site.client.clone()).access(Access::loopback()).build();
    let headers =
        [("host", "localhost"), ("sec-fetch-site", "same-origin"), ("content-type", "application/json")];
    let body = json!({ "queues": { "mail": 1 } }).to_string();
    exchange(&server.router(), "POST", "/work/v1/workers", &headers, body)
        .await
        .refused(403, "permission_denied");
}

#[tokio::test]
async fn a_read_only_server_hands_out_nothing() {
    let site = Site::of(windlass::testing::client(), |builder| builder.read_only(true));
    site.work("POST", "", json!({ "queues": { "mail": 1 } })).await.refused(403, "read_only");
}

#[tokio::test]
async fn a_worker_is_known_by_its_secret() {
    let site = Site::in_memory();
    let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
    let (id, secret) = worker.split_once('.').unwrap();
    assert_eq!(secret.len(), 32);
    let other = site.register(json!({ "queues": { "mail": 1 } })).await;
    let others = other.split_once('.').unwrap().1;
    for name in [
        format!("{id}.{others}"),
        format!("{id}."),
        format!("{id}.{secret}0"),
        id.to_owned(),
        format!("x.{secret}"),
    ] {
        site.work("POST", &format!("/{name}/turn"), json!({})).await.refused(404, "not_found");
    }
    site.work("POST", &format!("/999999.{secret}/turn"), json!({})).await.refused(410, "lease_lost");
    site.turn(&worker, json!({})).await;
    site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
    site.work("DELETE", &format!("/{worker}"), Value::Null).await.refused(410, "lease_lost");
}

#[tokio::test]
async fn a_receipt_settles_what_it_was_given_for_and_nothing_else() {
    for site in Site::all().await {
        let (mine, theirs) = (site.enqueue("a", json!({})).await, site.enqueue("a", json!({})).await);
        let [worker, other] = [(), ()].map(|()| json!({ "queues": { "mail": 1 } }));
        let (worker, other) = (site.register(worker).await, site.register(other).await);
        let (job, others) = (site.jobs(&worker).await.remove(0), site.jobs(&other).await.remove(0));
        let receipt = job["receipt"].as_str().unwrap();
        let (tag, _) = receipt.split_once('.').unwrap();
        let mut wrong: Vec<String> =
            ["", ".", "1", "0", "-1", "a.b", "\0", "ä", "18446744073709551616", "99999999999999999999999"]
                .iter()
                .flat_map(|text| [text.to_string(), format!("{tag}.{text}")])
                .collect();
        wrong.retain(|text| text != receipt);
        wrong.extend([
            format!("{tag}.2"),
            format!("{tag}.+1"),
            format!("{tag}. 1"),
            format!("{receipt}.1"),
            "x".repeat(100_000),
        ]);
        wrong.push(others["receipt"].as_str().unwrap().to_owned());
        let said: Vec<_> = wrong
            .iter()
            .map(|receipt| json!({ "receipt": receipt, "outcome": "discard", "error": "x" }))
            .collect();
        let turn = site.turn(&worker, json!({ "done": said, "want": {} })).await;
        assert_eq!(turn["settled"], json!(vec!["refused"; wrong.len()]));
        assert_eq!(
            (site.state(mine).await, site.state(theirs).await),
            (JobState::Running, JobState::Running)
        );
        let twice =
            [done(&job, "complete"), json!({ "receipt": receipt, "outcome": "discard", "error": "x" })];
        let turn = site.turn(&worker, json!({ "done": twice, "want": {} })).await;
        assert_eq!(turn["settled"], json!(["accepted", "already"]));
        assert_eq!(site.state(mine).await, JobState::Completed);
    }
}

#[tokio::test]
async fn bodies_are_read_strictly() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({})).await;
    for (body, pointer) in [
        (json!({}), ""),
        (json!({ "queues": {} }), "/queues"),
        (json!({ "queues": { "a b": 1 } }), ""),
        (json!({ "queues": { "a": 0 } }), ""),
        (json!({ "queues": { "a": 600, "b": 600 } }), ""),
        (json!({ "queues": { "a": 1 }, "lease_s": 0 }), "/lease_s"),
        (json!({ "queues": { "a": 1 }, "kinds": ["x y"] }), ""),
        (json!({ "queues": { "a": 1 }, "name": "" }), "/name"),
        (json!({ "queues": { "a": 1 }, "more": 1 }), "/more"),
    ] {
        let answer = site.work("POST", "", body.clone()).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text);
        assert_eq!(
            answer.body["errors"][0]["pointer"].as_str().unwrap_or_default(),
            pointer,
            "{body}: {}",
            answer.text
        );
    }
    let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    let receipt = &job["receipt"];
    for (body, pointer) in [
        (
            json!({ "done": [done(&job, "complete"), { "receipt": receipt, "outcome": "explode" }] }),
            "/done/1/outcome",
        ),
        (json!({ "done": [done(&job, "complete"), done(&job, "retry")] }), "/done/1/error"),
        (json!({ "done": [done(&job, "snooze")] }), "/done/0/after_ms"),
        (
            json!({ "done": [{ "receipt": receipt, "outcome": "snooze", "after_ms": 1_000_000_000_000_000_000_u64 }] }),
            "/done/0/after_ms",
        ),
        (json!({ "done": [done(&job, "cancel")] }), "/done/0/reason"),
        (json!({ "done": [done(&job, "discard")] }), "/done/0/error"),
        (json!({ "done": [{ "receipt": 7, "outcome": "complete" }] }), "/done/0/receipt"),
        (json!({ "want": { "images": 1 } }), "/want/images"),
        (json!({ "want": { "mail": -1 } }), "/want/mail"),
        (json!({ "wait_s": 31 }), "/wait_s"),
    ] {
        let answer =
            site.work("POST", &format!("/{worker}/turn"), body.clone()).await.refused(422, "invalid_option");
        assert_eq!(answer.body["errors"][0]["pointer"].as_str(), Some(pointer), "{body}: {}", answer.text);
    }
    assert_eq!(site.state(id).await, JobState::Running, "of a wrong turn nothing is settled");
    site.turn(&worker, json!({ "done": [done(&job, "complete")], "want": {} })).await;
    assert_eq!(site.state(id).await, JobState::Completed);
}
