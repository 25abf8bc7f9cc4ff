use super::site::Site;
use crate::{Role, gate::Does, routes::routes};
use serde_json::json;

/// What no call reads was meant for something: whoever adds `?dry_run=true`, or names one key in the query, wants no more than that.
#[tokio::test]
async fn nothing_that_is_said_is_passed_over() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({})).await.to_string();
    let schedule = json!({"cron": "@daily", "job": {"kind": "a"}});
    site.ask(Role::Admin, "PUT", "/schedules/n", schedule).await.is(200);
    site.ask(Role::Admin, "PUT", "/queues/mail/key-limits/acme", json!({"concurrency": 1})).await.is(200);
    let before = site.snapshot().await;
    let bearer = format!("Bearer {}", site.token(Role::Admin));
    let headers = [("authorization", bearer.as_str()), ("sec-fetch-site", "same-origin")];
    for route in routes() {
        let path = route.path.replace("{queue}", "mail").replace("{name}", "n").replace("{id}", &id);
        let path = format!("/api/v1{}", path.replace("{key}", "acme").replace("{worker}", "1"));
        let asked = format!("{path}?no_such=1");
        let answer = site.send_text(route.method.as_str(), &asked, &headers, "").await;
        let answer = answer.refused(422, "invalid_option");
        assert!(answer.text.contains("`no_such`"), "{}: {}", route.name, answer.text);
        if route.does == Does::Write && route.takes.is_none() {
            for body in ["{\"dry_run\": true}", "dry_run=true", "[]"] {
                let answer = site.send_text(route.method.as_str(), &path, &headers, body).await;
                let answer = answer.refused(422, "invalid_option");
                assert!(answer.text.contains("has no body"), "{}: {}", route.name, answer.text);
            }
        }
    }
    assert_eq!(site.snapshot().await, before);
    for worker in ["/workers", "/workers/7.x", "/workers/7.x/turn", "/workers/7.x/beat"] {
        let bearer = format!("Bearer {}", site.token(Role::Worker));
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let method = if worker == "/workers/7.x" { "DELETE" } else { "POST" };
        let asked = format!("/work/v1{worker}?wait_s=20");
        let answer = site.send_text(method, &asked, &headers, "{\"queues\": {\"mail\": 1}}").await;
        answer.refused(422, "invalid_option");
    }
    // What some clients add to every call says nothing.
    for (body, reply) in [("{}", "cancelled"), (" null\n", "finished")] {
        let answer = site.send_text("POST", &format!("/api/v1/jobs/{id}/cancel"), &headers, body).await;
        assert_eq!(answer.is(200)["reply"], reply);
    }
    let again = site.send_text("POST", &format!("/api/v1/jobs/{id}/cancel?"), &headers, "").await;
    assert_eq!(again.is(200)["reply"], "finished");
}
