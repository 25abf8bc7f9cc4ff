//! An auth file that takes the place of another one while the server runs.

use super::site::Site;
use crate::{AuthFile, Role};
use axum::{body::Body, http::Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tower::ServiceExt;
use windlass::{
    Args, Client, Context, JobId, JobRecord, JobState, NewJob, Outcome, RawJob, Worker, WorkerId, testing,
};
use windlass_core::{Store, wrap_store};

impl Site {
    /// The file with the tokens of these roles alone.
    fn file_of(&self, roles: &[Role]) -> AuthFile {
        AuthFile::parse(&self.lines_of(roles)).unwrap()
    }
}

#[tokio::test]
async fn a_token_that_was_taken_away_opens_nothing_any_more() {
    let site = Site::in_memory();
    let ours = ("sec-fetch-site", "same-origin");
    let login = json!({ "token": site.token(Role::Operator) });
    let session = site.send("POST", "/session", &[ours], login).await;
    let cookie = session.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    site.send("GET", "/queues", &[("cookie", &cookie)], Value::Null).await.is(200);

    site.server.set_auth_file(site.file_of(&[Role::Viewer])).await.unwrap();
    site.ask(Role::Operator, "GET", "/queues", Value::Null).await.refused(401, "unauthenticated");
    site.send("GET", "/queues", &[("cookie", &cookie)], Value::Null).await.refused(401, "unauthenticated");
    site.get("/queues").await.is(200);
    // A session does not come back with its token.
    site.server.set_auth_file(site.file_of(&Role::ALL)).await.unwrap();
    site.ask(Role::Operator, "GET", "/queues", Value::Null).await.is(200);
    site.send("GET", "/queues", &[("cookie", &cookie)], Value::Null).await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_session_goes_on_while_its_token_is_there() {
    let site = Site::in_memory();
    let login = json!({ "token": site.token(Role::Viewer) });
    let session = site.send("POST", "/session", &[("sec-fetch-site", "same-origin")], login).await;
    let cookie = session.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    site.server.set_auth_file(site.file_of(&[Role::Viewer])).await.unwrap();
    site.send("GET", "/queues", &[("cookie", &cookie)], Value::Null).await.is(200);
}

#[tokio::test]
async fn streams_end_and_who_still_may_comes_back() {
    let site = Site::in_memory();
    let open = async |role| {
        let bearer = format!("Bearer {}", site.token(role));
        let request = Request::get("/api/v1/live?topics=overview").header("authorization", bearer);
        site.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let stream = open(Role::Operator).await;
    site.server.set_auth_file(site.file_of(&[Role::Viewer])).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.into_body().collect());
    let text = read.await.expect("it ends").unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("retry: 1000"));
    assert_eq!(open(Role::Operator).await.status(), 401);
    assert_eq!(open(Role::Viewer).await.status(), 200);
}

#[tokio::test]
async fn a_worker_whose_token_was_taken_away_gets_no_job_and_gives_back_what_it_has() {
    let site = Site::in_memory();
    let bearer = format!("Bearer {}", site.token(Role::Worker));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let register = json!({ "queues": { "mail": 5 } }).to_string();
    let answer = site.send_text("POST", "/work/v1/workers", &headers, register).await.is(201);
    let turn = format!("/work/v1/workers/{}/turn", answer["worker"].as_str().unwrap());
    let id = site.enqueue("a", json!({})).await;
    site.send_text("POST", &turn, &headers, "{}").await.is(200);
    let state = async || site.client.job(id).await.unwrap().unwrap().state;
    assert_eq!(state().await, JobState::Running);

    let waits = site.send_text("POST", &turn, &headers, json!({ "wait_s": 30 }).to_string());
    let changes = async {
        tokio::task::yield_now().await;
        site.server.set_auth_file(site.file_of(&[Role::Viewer])).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waits, changes);
    // It waited already, or came too late to.
    assert!(waited.status == 410 || waited.status == 401, "{}", waited.text);
    while state().await != JobState::Available {
        tokio::task::yield_now().await; // what it has goes back beside
    }
    site.send_text("POST", &turn, &headers, "{}").await.refused(401, "unauthenticated");
}

/// A store that does not answer who ends a worker.
struct Hanging {
    store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Hanging, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]

    async fn deregister(&self, _: WorkerId) -> windlass_core::Result<()> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_for_no_worker_of_the_one_before() {
    let store = Arc::clone(testing::client().store());
    let site = Site::of(Client::from_store(Arc::new(Hanging { store })), |builder| builder);
    for _ in 0..3 {
        site.register(json!({ "queues": { "mail": 5 } })).await;
    }
    let began = Instant::now();
    for roles in [&[Role::Viewer, Role::Operator][..], &[Role::Viewer]] {
        let taken = site.server.set_auth_file(site.file_of(roles));
        tokio::time::timeout(Duration::from_secs(1), taken).await.expect("it waits for the store").unwrap();
    }
    site.ask(Role::Operator, "GET", "/queues", Value::Null).await.refused(401, "unauthenticated");
    site.server.close().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn bulk_actions_of_a_token_that_was_taken_away_stop_where_they_are() {
    let site = Site::in_memory();
    for n in 0..20 {
        site.enqueue("a", json!(n)).await;
        site.enqueue("b", json!(n)).await;
    }
    let slow = |kind: &str| json!({"action": "cancel", "filter": {"kind": kind}, "per_second": 1});
    let begun = async |role, kind| {
        let id = site.ask(role, "POST", "/bulk", slow(kind)).await.is(201)["id"].as_str().unwrap().to_owned();
        site.ask(role, "POST", &format!("/bulk/{id}/confirm"), json!({ "count": 20 })).await.is(202);
        format!("/bulk/{id}")
    };
    let (operators, admins) = (begun(Role::Operator, "a").await, begun(Role::Admin, "b").await);
    let previewed = site.ask(Role::Operator, "POST", "/bulk", slow("a")).await.is(201)["id"].clone();
    // Time goes on by itself while everybody waits.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    site.server.set_auth_file(site.file_of(&[Role::Viewer, Role::Admin])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let shown = site.get(&operators).await.is(200);
    assert!(shown["state"] == "stopped" && shown["done"].as_u64().unwrap() < 5, "{shown}");
    assert_eq!(site.get(&admins).await.is(200)["state"], "done");
    assert_eq!(site.get(&format!("/bulk/{}", previewed.as_str().unwrap())).await.is(200)["state"], "stopped");
}

#[tokio::test]
async fn what_is_hidden_changes_with_the_file() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({ "street": "12 Oak Road" })).await;
    let path = format!("/jobs/{id}");
    assert_eq!(site.get(&path).await.is(200)["args"]["street"], "12 Oak Road");
    let text = site.lines_of(&Role::ALL) + "[redact]\nkinds.\"a\" = ['street']\n";
    site.server.set_auth_file(AuthFile::parse(&text).unwrap()).await.unwrap();
    let shown = site.get(&path).await;
    assert!(shown.status == 200 && !shown.text.contains("Oak"), "{}", shown.text);
}

#[tokio::test]
async fn a_server_without_a_file_takes_none() {
    let site = Site::in_memory();
    let server = crate::Server::builder(site.client.clone()).build();
    let refused = server.set_auth_file(site.file_of(&[Role::Viewer])).await.unwrap_err();
    assert!(refused.to_string().contains("Access::file"), "{refused}");
}

/// A store whose looks are so dear that answers are kept.
struct Dear {
    store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Dear, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share jobs any_available coming queues_by history status events wakeup close]

    async fn job(&self, id: JobId) -> windlass_core::Result<Option<JobRecord>> {
        tokio::time::sleep(Duration::from_millis(60)).await;
        self.store.job(id).await
    }
}

#[tokio::test]
async fn what_is_hidden_changes_in_answers_that_are_kept() {
    let client = testing::client();
    let dear = Dear { store: Arc::clone(client.store()) };
    let site = Site::of(Client::from_store(Arc::new(dear)), |builder| builder);
    let job = NewJob::new("a", Args::parse(r#"{"street": "12 Oak Road"}"#).unwrap()).with_queue("mail");
    client.enqueue(job.with_max_attempts(1)).await.unwrap();
    let fail = |_: RawJob, _: Context| async {
        Outcome::Retry { after: None, error: "no such street: 12 Oak Road".into() }
    };
    let worker = Worker::builder(&client).queue("mail", 1).handle_kind("a", fail).start().await.unwrap();
    worker.until_idle().await.unwrap();
    worker.shutdown().await;
    for _ in 0..3 {
        let shown = site.get("/failures").await;
        assert!(shown.text.contains("Oak"), "{}", shown.text);
    }
    let text = site.lines_of(&Role::ALL) + "[redact]\nkinds.\"a\" = ['street']\n";
    site.server.set_auth_file(AuthFile::parse(&text).unwrap()).await.unwrap();
    let shown = site.get("/failures").await;
    assert!(shown.status == 200 && !shown.text.contains("Oak"), "{}", shown.text);
}
