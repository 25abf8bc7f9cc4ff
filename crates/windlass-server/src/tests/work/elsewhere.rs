//! Two servers of one store, and one that was started anew: a worker that comes to another than it registered with.

use super::{Site, done};
use serde_json::json;
use windlass::{JobState, testing};

/// Behind a balancer that sends each request somewhere else a worker is told so; what it has is not lost, and its own server takes it.
#[tokio::test]
async fn at_another_server_a_worker_is_told_that_it_is_unknown() {
    let client = testing::client();
    let [own, other] = [0; 2].map(|_| Site::of(client.clone(), |builder| builder));
    let id = own.enqueue("a", json!({})).await;
    let worker = own.register(json!({ "queues": { "mail": 1 } })).await;
    let jobs = own.jobs(&worker).await;
    let settle = json!({ "done": [done(&jobs[0], "complete")] });
    for (path, body) in [("turn", settle.clone()), ("beat", json!({}))] {
        let answer = other.work("POST", &format!("/{worker}/{path}"), body).await;
        assert_eq!(answer.status, 410, "{path}: {}", answer.text);
        assert!(answer.text.contains("register"), "what to do: {}", answer.text);
    }
    assert_eq!(own.state(id).await, JobState::Running);
    assert_eq!(own.turn(&worker, settle.clone()).await["settled"], json!(["accepted"]));
    assert_eq!(own.turn(&worker, settle).await["settled"], json!(["already"]));
    assert_eq!(own.state(id).await, JobState::Completed);
}

/// A server that was stopped and started anew between claim and settlement: the job is there at once and has used up no attempt, and what the worker of before
/// says of it settles nothing, also while the next one has it.
#[tokio::test]
async fn after_a_restart_what_was_claimed_before_settles_nothing() {
    let client = testing::client();
    let before = Site::of(client.clone(), |builder| builder);
    let id = before.enqueue("a", json!({})).await;
    let worker = before.register(json!({ "queues": { "mail": 1 } })).await;
    let late = done(&before.jobs(&worker).await[0], "complete");
    before.server.close().await;
    assert_eq!(before.state(id).await, JobState::Available);

    let anew = Site::of(client, |builder| builder);
    let path = format!("/{worker}/turn");
    let stale = || anew.work("POST", &path, json!({ "done": [late] }));
    assert_eq!(stale().await.status, 410);
    let next = anew.register(json!({ "queues": { "mail": 1 } })).await;
    let job = anew.jobs(&next).await.remove(0);
    assert_eq!((&job["id"], &job["attempt"]), (&json!(id.to_string()), &json!(1)));
    assert_eq!(stale().await.status, 410);
    let settled = anew.turn(&next, json!({ "done": [late, done(&job, "complete")] })).await;
    assert_eq!(settled["settled"], json!(["refused", "accepted"]));
}
