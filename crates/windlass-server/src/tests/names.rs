//! Names that cannot be, in paths and queries: every store answers as the others do, in words of ours, and nothing fails.

use super::site::Site;
use crate::{Role, gate::Does, routes::routes};
use serde_json::{Value, json};

/// What each parameter gets: NUL, a slash, what is no UTF-8, what is very long, and what steers a terminal.
fn odd() -> Vec<String> {
    let long = "x".repeat(10_000);
    [
        "%00",
        "a%00b",
        "a%2Fb",
        "%ff%fe",
        "%C0%80",
        "%ED%A0%80",
        &long,
        "%1b%5B31m",
        "%F0%9F%94%92",
        "%E2%80%AE",
        "%252F",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A body that each route takes, so that it is the name that is wrong.
fn body(route: &str) -> Value {
    match route {
        "queues.limit" | "queues.limit_keys" | "queues.limit_key" => json!({"concurrency": 1}),
        "schedules.put" => json!({"cron": "@daily", "job": {"kind": "a"}}),
        "jobs.edit" => json!({"priority": 1}),
        "bulk.confirm" => json!({"count": 1}),
        _ => Value::Null,
    }
}

/// Method, path and body of every route with each of its names and parameters odd in turn.
fn asked() -> Vec<(String, String, Value)> {
    let mut asked = Vec::new();
    for route in routes().into_iter().filter(|route| route.role.is_some() && route.does != Does::Stream) {
        let names: Vec<_> = route.path.split('/').filter(|part| part.starts_with('{')).collect();
        let plain = |but: &str, text: &str| {
            let named = names.iter().fold(route.path.to_owned(), |path, name| {
                path.replace(name, if *name == but { text } else { "7777" })
            });
            (route.method.to_string(), named)
        };
        for odd in odd() {
            for name in &names {
                let (method, path) = plain(name, &odd);
                asked.push((method, path, body(route.name)));
            }
            for name in route.query {
                let (method, path) = plain("", "");
                let reveal = if route.name == "jobs.reveal" && *name != "reveal" { "&reveal=1" } else { "" };
                asked.push((method, format!("{path}?{name}={odd}{reveal}"), body(route.name)));
            }
        }
    }
    asked
}

#[tokio::test]
async fn what_can_be_no_name_is_refused_alike_on_every_store() {
    let mut all = Vec::new();
    for site in Site::all_stores().await {
        site.enqueue("mail.send", json!({"n": 1})).await;
        let mut said = Vec::new();
        for (method, path, body) in asked() {
            let answer = site.ask(Role::Admin, &method, &path, body).await;
            let short: String = path.chars().take(90).collect();
            assert!(answer.status < 500, "{method} {short}: {}", answer.text);
            assert!(answer.text.len() < 3_000, "{method} {short}: {} bytes come back", answer.text.len());
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            assert!(!detail.contains(|c: char| c.is_control()), "{method} {short}: {detail:?}");
            assert!(!detail.contains("encoding"), "{method} {short}: the words of a store, {detail}");
            said.push((method, short, answer.status, answer.body["code"].clone()));
        }
        all.push((site.name().await, said));
    }
    let (_, first) = &all[0];
    assert!(first.iter().filter(|answer| answer.2 >= 400).count() > 100, "names were refused");
    for (store, said) in &all[1..] {
        for (one, other) in first.iter().zip(said) {
            assert_eq!(one, other, "{store}");
        }
    }
}

/// A browser that is asked for `/queues/..` asks for `/`, and so do proxies: whatever has a page is not called so.
#[tokio::test]
async fn nothing_is_named_as_a_folder_is() {
    for site in Site::all_stores().await {
        for name in [".", ".."] {
            let job = json!({"jobs": [{"kind": "a", "queue": name}]});
            site.ask(Role::Operator, "POST", "/jobs", job).await.refused(422, "invalid_name");
            let escaped = name.replace('.', "%2E");
            let limits = json!({"concurrency": 1});
            for path in ["limits", "key-limits"] {
                site.ask(Role::Admin, "PUT", &format!("/queues/{escaped}/{path}"), limits.clone())
                    .await
                    .refused(422, "invalid_name");
            }
            let put = json!({"cron": "@daily", "job": {"kind": "a"}});
            site.ask(Role::Admin, "PUT", &format!("/schedules/{escaped}"), put)
                .await
                .refused(422, "invalid_name");
        }
    }
}
