//! `windlass serve` by roles of PostgreSQL with no more rights than docs/guide/operate.md names.

use crate::program::Home;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
    time::Duration,
};
use tokio_postgres::NoTls;

/// A server by a role of PostgreSQL, with a token for admins and one for workers.
struct Served {
    child: Child,
    address: String,
    tokens: [String; 2],
}

impl Served {
    fn start(home: &Home, url: &str, more: &[&str]) -> Self {
        let tokens = ["admin", "worker"].map(|role| home.json(&["token", role, "--role", role]));
        let line = |token: &Value, role: &str| {
            format!("[[token]]\nname = {role:?}\nrole = {role:?}\nsha256 = {}\n", token["sha256"])
        };
        let file = home.path().join("auth.toml");
        fs::write(&file, line(&tokens[0], "admin") + &line(&tokens[1], "worker")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--auth", "auth.toml", "--json"];
        let mut command = home.command(&[&serve[..], more].concat());
        let mut child = home.spawn(command.env("WINDLASS_STORE", url).stdin(Stdio::null()));
        let said = serde_json::Deserializer::from_reader(child.stdout.take().unwrap()).into_iter().next();
        let said: Value = said.expect("it starts").unwrap();
        let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().trim_end_matches('/');
        let text = |token: &Value| token["token"].as_str().unwrap().to_owned();
        Self { child, address: address.to_owned(), tokens: [text(&tokens[0]), text(&tokens[1])] }
    }

    /// The status and the body.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (token, under) = match path.starts_with("/workers") && method != "GET" {
            true => (&self.tokens[1], "/work/v1"),
            false => (&self.tokens[0], "/api/v1"),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (address, length) = (&self.address, body.len());
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!(
            "{method} {under}{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    #[track_caller]
    fn does(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    #[track_caller]
    fn lacks(&self, method: &str, path: &str, body: &Value, access: &str) {
        let (status, answer) = self.ask(method, path, body);
        let detail = answer["detail"].as_str().unwrap_or_default();
        let remedy = format!("windlass grant {access} ROLE");
        assert!(status >= 400 && detail.contains(&remedy), "{method} {path}: {status} {answer}");
    }

    fn shows_everything(&self) {
        for path in [
            "/overview",
            "/queues",
            "/queues/mail",
            "/queues/mail/key-limits",
            "/jobs",
            "/workers",
            "/schedules",
            "/schedules/nightly",
            "/events",
            "/history",
            "/timings",
            "/failures",
            "/marks",
            "/retention",
            "/settings",
            "/audit",
        ] {
            self.does("GET", path, &Value::Null);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_does_all_of_it_with_the_rights_that_the_guide_names() {
    let server =
        std::env::var("WINDLASS_TEST_POSTGRES").expect("WINDLASS_TEST_POSTGRES is not set; run `make test`");
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let roles = "CREATE ROLE serve_looks LOGIN; CREATE ROLE serve_acts LOGIN; CREATE ROLE serve_works LOGIN";
    client.batch_execute(roles).await.unwrap();
    let home = Home::bare();
    let url =
        |role: &str| format!("{}?schema=serve_grants", server.replace("//postgres@", &format!("//{role}@")));
    let owner = |args: &[&str]| {
        let mut command = home.command(args);
        let status = command.env("WINDLASS_STORE", url("postgres")).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{args:?}");
    };
    owner(&["migrate"]);
    for (access, role) in [
        ("viewer", "serve_looks"),
        ("operator", "serve_acts"),
        ("producer", "serve_acts"),
        ("operator", "serve_works"),
        ("producer", "serve_works"),
        ("worker", "serve_works"),
    ] {
        owner(&["grant", access, role]);
    }

    let acts = Served::start(&home, &url("serve_acts"), &[]);
    let job = json!({ "kind": "a", "queue": "mail" });
    let ids = acts.does("POST", "/jobs", &json!({ "jobs": [job, job, job] }))["ids"].clone();
    let path = |at: usize, verb: &str| format!("/jobs/{}{verb}", ids[at].as_str().unwrap());
    acts.does("PATCH", &path(0, ""), &json!({ "priority": 3 }));
    acts.does("POST", &path(0, "/cancel"), &Value::Null);
    acts.does("POST", &path(0, "/retry"), &Value::Null);
    acts.does("GET", &path(0, "/args?reveal=1"), &Value::Null);
    acts.does("DELETE", &path(0, ""), &Value::Null);
    let edit = json!({ "action": "edit", "edit": { "priority": 1 }, "filter": { "queue": "mail" } });
    let bulk = acts.does("POST", "/bulk", &edit);
    acts.does(
        "POST",
        &format!("/bulk/{}/confirm", bulk["id"].as_str().unwrap()),
        &json!({ "count": bulk["count"] }),
    );
    for verb in ["pause", "resume"] {
        acts.does("POST", &format!("/queues/mail/{verb}"), &Value::Null);
    }
    acts.does("PUT", "/queues/mail/limits", &json!({ "concurrency": 5 }));
    acts.does("PUT", "/queues/keyed/key-limits", &json!({ "concurrency": 1 }));
    acts.does("PUT", "/schedules/nightly", &json!({ "cron": "@daily", "job": { "kind": "a" } }));
    for verb in ["pause", "resume", "run"] {
        acts.does("POST", &format!("/schedules/nightly/{verb}"), &Value::Null);
    }
    acts.does("POST", "/marks", &json!({ "label": "v1" }));
    acts.shows_everything();
    let register = json!({ "queues": { "mail": 2 } });
    acts.lacks("POST", "/workers", &register, "worker");
    // What it changed is audited.
    let audited = acts.does("GET", "/audit?limit=100", &Value::Null)["items"].as_array().unwrap().len();
    assert!(audited >= 12, "{audited}");

    let looks = Served::start(&home, &url("serve_looks"), &["--read-only"]);
    looks.shows_everything();
    let looks = Served::start(&home, &url("serve_looks"), &[]);
    looks.lacks("POST", "/queues/mail/pause", &Value::Null, "operator");
    // What is hidden is shown to nobody of whom that cannot be noted.
    looks.lacks("GET", &path(1, "/args?reveal=1"), &Value::Null, "operator");

    let works = Served::start(&home, &url("serve_works"), &[]);
    let worker = works.does("POST", "/workers", &register)["worker"].as_str().unwrap().to_owned();
    let turn = works.does("POST", &format!("/workers/{worker}/turn"), &json!({ "wait_s": 20 }));
    let receipt = &turn["jobs"][0]["receipt"];
    let said = json!({ "reports": [{ "receipt": receipt, "percent": 5, "log": ["a"], "checkpoint": 1 }],
        "done": [{ "receipt": receipt, "outcome": "complete" }], "want": {} });
    let turn = works.does("POST", &format!("/workers/{worker}/turn"), &said);
    assert_eq!((&turn["reported"], &turn["settled"]), (&json!(["accepted"]), &json!(["accepted"])));
    works.does("DELETE", &format!("/workers/{worker}"), &Value::Null);
}
