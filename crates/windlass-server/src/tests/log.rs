//! What the log says of answers that say little themselves.

use super::site::Site;
use crate::Role::Operator;
use serde_json::{Value, json};
use std::{
    io,
    sync::{Arc, Mutex},
};
use tracing::{
    Dispatch, Level,
    subscriber::{DefaultGuard, NoSubscriber},
};
use windlass::{Client, Error, ErrorKind, Settings, StoreStatus, testing};
use windlass_core::{Store, wrap_store};

/// A store that fails: its settings by a defect, its state because it is out of reach.
pub(super) struct Failing {
    pub(super) store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Failing, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events wakeup close]

    async fn settings(&self) -> windlass_core::Result<Settings> {
        Err(Error::new(ErrorKind::Internal, "row 7 is damaged"))
    }

    async fn status(&self) -> windlass_core::Result<StoreStatus> {
        Err(Error::new(ErrorKind::Unavailable, "cannot reach db.internal:5432"))
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Keeps what this thread logs from now on, until the guard goes. Tracing takes a single subscriber for that of the thread which comes to a line
    /// of ours first, which has none; so there is another one.
    fn keep(&self, level: Level) -> (DefaultGuard, Dispatch) {
        let other = Dispatch::new(NoSubscriber::new());
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        (tracing::subscriber::set_default(subscriber.with_writer(move || lines.clone()).finish()), other)
    }

    /// The line of a request, however it was answered.
    fn of(&self, request_id: &str) -> String {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains(request_id)).collect();
        assert_eq!(lines.len(), 1, "{request_id} in {text}");
        lines[0].to_owned()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_an_answer_leaves_out_is_logged_under_its_request_id() {
    let lines = Lines::default();
    let _kept = lines.keep(Level::WARN);
    let store = Arc::new(Failing { store: Arc::clone(testing::client().store()) });
    let site = Site::of(Client::from_store(store), |builder| builder);
    for (path, status, code, level, route, cause) in [
        ("/settings", 500, "internal", "ERROR", "settings.show", "row 7 is damaged"),
        ("/workers", 503, "unavailable", "WARN", "workers.list", "cannot reach db.internal:5432"),
    ] {
        let answer = site.get(path).await.refused(status, code);
        assert!(!answer.text.contains(cause), "{}", answer.text);
        let line = lines.of(answer.body["request_id"].as_str().unwrap());
        for part in [level, route, code, cause] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains(site.token(crate::Role::Viewer)), "{line}");
    }
    // What a caller did wrong is not the operator's affair.
    site.ask(Operator, "POST", "/jobs", json!({ "jobs": 7 })).await.refused(422, "invalid_option");
    site.ask(Operator, "GET", "/jobs/7", Value::Null).await.refused(404, "not_found");
    assert_eq!(String::from_utf8(lines.0.lock().unwrap().clone()).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_token_is_told_to_nobody() {
    let lines = Lines::default();
    let _kept = lines.keep(Level::TRACE);
    let site = Site::in_memory();
    let (right, wrong) = (site.token(Operator).to_owned(), "wl_wrong0123456789abcdef".to_owned());
    let ours = ("sec-fetch-site", "same-origin");
    let mut told = String::new();
    for token in [&right, &wrong] {
        for body in [
            json!({ "token": token }),
            json!({ "token": token, "name": "x" }),
            json!({ "token": [token] }),
            json!({ "token": { "is": token } }),
            json!({ "tokens": token }),
            json!([token]),
            json!(token),
        ] {
            let answer = site.send("POST", "/session", &[ours], body).await;
            told += &format!("{:?} {}\n", answer.headers, answer.text);
        }
        let not_json = site
            .send_text(
                "POST",
                "/api/v1/session",
                &[ours, ("content-type", "application/json")],
                token.clone(),
            )
            .await;
        told += &not_json.text;
        for header in
            [format!("Bearer {token}"), format!("bearer  {token} "), format!("Basic {token}"), token.clone()]
        {
            let headers = [("authorization", header.as_str()), ours];
            for (method, path) in [
                ("GET", "/session"),
                ("GET", "/jobs"),
                ("POST", "/queues/mail/pause"),
                ("DELETE", "/jobs/7"),
                ("GET", "/audit"),
            ] {
                let answer = site.send(method, path, &headers, Value::Null).await;
                told += &format!("{:?} {}\n", answer.headers, answer.text);
            }
        }
    }
    told += &site.ask(crate::Role::Admin, "GET", "/audit", Value::Null).await.text;
    told += &format!("{:?}", site.server);
    told += &String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(told.contains("a session began") && told.contains("queues.pause"), "{told}");
    for token in [right, wrong] {
        assert!(!told.contains(&token) && !told.contains(&token[3..]), "{told}");
    }
}
