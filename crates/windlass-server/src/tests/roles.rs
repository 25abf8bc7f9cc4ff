use super::site::Site;
use crate::{
    Role, TraceUrl,
    gate::Does,
    routes::{Route, routes},
};
use serde_json::{Value, json};
use windlass::{Args, KeyLimit, NewJob, Schedule};

/// Who may do what: a route that is new, or for others, has to be named here.
const TABLE: &str = "
- DELETE /session
- GET /openapi.json
- GET /session
- POST /session
admin DELETE /queues/{queue}/key-limits
admin DELETE /queues/{queue}/key-limits/{key}
admin DELETE /schedules/{name}
admin GET /audit
admin GET /jobs/{id}/args
admin PUT /queues/{queue}/key-limits
admin PUT /queues/{queue}/key-limits/{key}
admin PUT /queues/{queue}/limits
admin PUT /retention
admin PUT /schedules/{name}
admin PUT /settings
operator DELETE /bulk/{id}
operator DELETE /jobs/{id}
operator PATCH /jobs/{id}
operator POST /bulk
operator POST /bulk/{id}/confirm
operator POST /jobs
operator POST /jobs/{id}/cancel
operator POST /jobs/{id}/retry
operator POST /marks
operator POST /queues/{queue}/pause
operator POST /queues/{queue}/resume
operator POST /schedules/{name}/pause
operator POST /schedules/{name}/resume
operator POST /schedules/{name}/run
operator POST /workers/{worker}/drain
viewer GET /bulk/{id}
viewer GET /events
viewer GET /failures
viewer GET /history
viewer GET /jobs
viewer GET /jobs/{id}
viewer GET /live
viewer GET /marks
viewer GET /overview
viewer GET /queues
viewer GET /queues/{queue}
viewer GET /queues/{queue}/key-limits
viewer GET /retention
viewer GET /schedules
viewer GET /schedules/{name}
viewer GET /settings
viewer GET /timings
viewer GET /workers
";

#[test]
fn every_route_is_for_whom_the_table_says() {
    let line =
        |route: &Route| format!("{} {} {}", route.role.map_or("-", Role::as_str), route.method, route.path);
    let mut lines: Vec<_> = routes().iter().map(line).collect();
    lines.sort();
    assert_eq!(lines, TABLE.trim().lines().collect::<Vec<_>>());
    for route in routes() {
        let reads = route.method == axum::http::Method::GET;
        assert_eq!(reads, matches!(route.does, Does::Read | Does::Reveal | Does::Stream), "{}", route.name);
        assert!(route.takes.is_none() || !reads, "{}", route.name);
    }
}

/// A site with something to change.
async fn furnished(site: &Site) -> String {
    let id = site.enqueue("mail.send", json!({"to": "a"})).await;
    let job = NewJob::new("nightly", Args::parse("{}").unwrap());
    site.client.schedules().put([Schedule::new("nightly", "@daily", job)]).await.unwrap();
    site.client.limit_key("mail", "acme", KeyLimit::serial()).await.unwrap();
    id.to_string()
}

fn path_of(route: &Route, id: &str) -> String {
    let path = route.path.replace("{queue}", "mail").replace("{name}", "nightly").replace("{key}", "acme");
    let path = path.replace("{id}", if path.starts_with("/bulk") { "b_1" } else { id });
    if route.path == "/live" { path + "?topics=nothing" } else { path }
}

#[tokio::test]
async fn nobody_may_more_than_their_role() {
    for site in Site::all().await {
        let id = furnished(&site).await;
        let before = site.snapshot().await;
        for route in routes().iter().filter(|route| route.role.is_some()) {
            let (least, method, path) = (route.role.unwrap(), route.method.as_str(), path_of(route, &id));
            site.send(method, &path, &[], Value::Null).await.refused(401, "unauthenticated");
            for role in Role::ALL {
                if role < least {
                    site.ask(role, method, &path, Value::Null).await.refused(403, "permission_denied");
                } else if matches!(route.does, Does::Read | Does::Reveal | Does::Stream) {
                    let answer = site.ask(role, method, &path, Value::Null).await;
                    assert!(
                        ![401, 403, 405, 500].contains(&answer.status),
                        "{role} {method} {path}: {answer:?}"
                    );
                }
            }
        }
        assert_eq!(site.snapshot().await, before, "a read or a refused write changed something");
        // Those who may reach the handlers: none of them is behind a wrong gate.
        for route in routes().iter().filter(|route| route.does == Does::Write) {
            let (least, method, path) = (route.role.unwrap(), route.method.as_str(), path_of(route, &id));
            let answer = site.ask(least, method, &path, Value::Null).await;
            let wanted = if route.takes.is_some() { answer.status == 415 } else { answer.status < 300 };
            let is_gone = answer.body["code"] == "not_found"; // what a route before removed
            assert!(wanted || is_gone, "{least} {method} {path}: {answer:?}");
        }
        assert_ne!(site.snapshot().await, before, "no write was let through");
    }
}

#[tokio::test]
async fn a_read_only_server_changes_nothing() {
    let site = Site::of(windlass::testing::client(), |builder| builder.read_only(true));
    let id = furnished(&site).await;
    let before = site.snapshot().await;
    for route in routes().iter().filter(|route| route.does == Does::Write) {
        let path = path_of(route, &id);
        site.ask(Role::Admin, route.method.as_str(), &path, Value::Null).await.refused(403, "read_only");
    }
    assert_eq!(site.snapshot().await, before);
    assert_eq!(site.get("/session").await.is(200)["read_only"], true);
}

#[tokio::test]
async fn the_session_says_where_traces_are_shown() {
    const URL: &str = "https://jaeger.example.com/trace/{trace_id}";
    let site =
        Site::of(windlass::testing::client(), |builder| builder.trace_url(URL.parse::<TraceUrl>().unwrap()));
    assert_eq!(site.get("/session").await.is(200)["trace_url"], URL);
    let site = Site::of(windlass::testing::client(), |builder| builder);
    assert_eq!(site.get("/session").await.is(200)["trace_url"], Value::Null);
}

#[tokio::test]
async fn wrong_tokens_are_answered_slower_and_right_ones_never() {
    let site = Site::in_memory();
    let wrong = |n: u32| format!("Bearer wl_{n:064x}");
    for n in 0..5 {
        site.send("GET", "/queues", &[("authorization", &wrong(n))], Value::Null)
            .await
            .refused(401, "unauthenticated");
    }
    let answer = site
        .send("GET", "/queues", &[("authorization", &wrong(6))], Value::Null)
        .await
        .refused(429, "throttled");
    let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
    assert_eq!(site.get("/queues").await.status, 200);
}

#[tokio::test]
async fn every_attempt_to_change_something_is_in_the_audit_log() {
    let site = Site::in_memory();
    let id = site.enqueue("mail.send", json!({"to": "a"})).await;
    site.ask(Role::Viewer, "POST", "/queues/mail/pause", Value::Null).await.refused(403, "permission_denied");
    site.ask(Role::Operator, "POST", "/queues/mail/pause", Value::Null).await.is(204);
    site.ask(Role::Operator, "POST", "/jobs/999999/cancel", Value::Null).await.refused(404, "not_found");
    let path = format!("/jobs/{id}/args?reveal=1&reason=ticket+7");
    assert_eq!(site.ask(Role::Admin, "GET", &path, Value::Null).await.is(200), json!({"args": {"to": "a"}}));
    site.get("/jobs").await.is(200);
    let first = site.ask(Role::Admin, "GET", "/audit?limit=3", Value::Null).await.is(200);
    let rest = format!("/audit?before={}", first["next"].as_str().unwrap());
    let rest = site.ask(Role::Admin, "GET", &rest, Value::Null).await.is(200);
    assert_eq!(rest["next"], Value::Null);
    let entries = first["items"].as_array().unwrap().iter().chain(rest["items"].as_array().unwrap());
    let told: Vec<_> = entries
        .map(|entry| {
            json!([entry["actor"], entry["action"], entry["target"], entry["outcome"], entry["reason"]])
        })
        .collect();
    let args = format!("/jobs/{id}/args");
    assert_eq!(
        json!(told),
        json!([
            ["admin", "jobs.reveal", args, "done", "ticket 7"],
            ["operator", "jobs.cancel", "/jobs/999999/cancel", "not_found", null],
            ["operator", "queues.pause", "/queues/mail/pause", "done", null],
            ["viewer", "queues.pause", "/queues/mail/pause", "permission_denied", null],
        ])
    );
}

/// The log is the store's: a server that is started anew shows it, narrowed by filters.
#[tokio::test]
async fn the_audit_log_outlives_the_server() {
    for site in Site::all().await {
        site.enqueue("mail.send", json!({"to": "a"})).await;
        site.ask(Role::Operator, "POST", "/queues/mail/pause", Value::Null).await.is(204);
        site.ask(Role::Admin, "POST", "/queues/mail/resume", Value::Null).await.is(204);
        let by_hand = windlass::AuditEntry::new("anna", "queues.pause", "mail").with_via("cli").with_count(3);
        site.client.append_audit(&[by_hand]).await.unwrap();
        let other = Site::of(site.client.clone(), |builder| builder);
        let actors = async |query: &str| {
            let page = other.ask(Role::Admin, "GET", &format!("/audit{query}"), Value::Null).await.is(200);
            let items = page["items"].as_array().unwrap();
            items.iter().map(|entry| entry["actor"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(actors("").await, ["anna", "admin", "operator"]);
        assert_eq!(actors("?actor=admin").await, ["admin"]);
        assert_eq!(actors("?action=queues.pause").await, ["anna", "operator"]);
        assert_eq!(actors("?target=mail&since=2000-01-01T00:00:00Z").await, ["anna"]);
        assert!(actors("?since=2200-01-01T00:00:00Z").await.is_empty());
        for (query, says) in [("?since=soon", "since must be a time"), ("?before=7", "before must be the id")]
        {
            let path = format!("/audit{query}");
            let answer =
                other.ask(Role::Admin, "GET", &path, Value::Null).await.refused(422, "invalid_option");
            assert!(answer.text.contains(says), "{}", answer.text);
        }
    }
}

/// Somebody who may change nothing cannot push out what others did.
#[tokio::test]
async fn refusals_do_not_fill_the_store() {
    let site = Site::in_memory();
    site.enqueue("mail.send", json!({})).await;
    for _ in 0..100 {
        site.ask(Role::Viewer, "POST", "/queues/mail/pause", Value::Null)
            .await
            .refused(403, "permission_denied");
    }
    site.ask(Role::Operator, "POST", "/queues/mail/pause", Value::Null).await.is(204);
    let page = site.ask(Role::Admin, "GET", "/audit?limit=200", Value::Null).await.is(200);
    let items = page["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["outcome"]), (61, &json!("done")));
}
