//! Who is not, or no longer, whom they say: streams, a proxy's header, wrong tokens, pages of others.

use super::site::{Answer, Site, exchange};
use crate::{Access, AuthFile, NewToken, Role, Server};
use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tower::ServiceExt;
use windlass::testing;

const OURS: (&str, &str) = ("sec-fetch-site", "same-origin");
const JSON: (&str, &str) = ("content-type", "application/json");

fn cookie(answer: &Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// A server of an auth file.
fn of_file(text: &str) -> Router {
    let access = Access::file(AuthFile::parse(text).unwrap());
    Server::builder(testing::client()).access(access).build().router()
}

fn token_line(token: &NewToken, more: &str) -> String {
    format!("[[token]]\nname='t'\nrole='viewer'\nsha256='{}'\n{more}", token.sha256)
}

/// A stream of events, open.
async fn listen(router: &Router, header: (&str, &str)) -> Body {
    let request = Request::get("/api/v1/live?topics=overview").header(header.0, header.1);
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// It is read of everybody, on as many connections as there are.
#[tokio::test]
async fn a_login_is_short() {
    let site = Site::in_memory();
    let long = json!({ "token": "x".repeat(5_000) });
    site.send("POST", "/session", &[OURS], long).await.refused(413, "too_large");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_session() {
    let site = Site::in_memory();
    let login = json!({"token": site.token(Role::Viewer)});
    let session = async || {
        let answer = site.send("POST", "/session", &[OURS], login.clone()).await;
        (answer.status == 204).then(|| cookie(&answer)).unwrap()
    };
    let [ended, other] = [session().await, session().await];
    let (stream, stays) =
        (listen(&site.router, ("cookie", &ended)).await, listen(&site.router, ("cookie", &other)).await);
    let out = site.send("DELETE", "/session", &[OURS, ("cookie", &ended)], Value::Null).await;
    assert_eq!(out.status, 204);
    let read = tokio::time::timeout(Duration::from_secs(1), stream.collect()).await;
    let text = read.expect("it ends at once").unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("retry: 1000"), "the page looks who it is now");
    let goes_on = tokio::time::timeout(Duration::from_secs(60), stays.collect()).await;
    assert!(goes_on.is_err(), "that of another goes on");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_token_expires() {
    let token = NewToken::generate().unwrap();
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(120);
    let router = of_file(&token_line(&token, &format!("expires={expires}\n")));
    let body = json!({ "token": token.text }).to_string();
    let session = cookie(&exchange(&router, "POST", "/api/v1/session", &[OURS, JSON], body).await);
    for header in [("authorization", format!("Bearer {}", token.text)), ("cookie", session)] {
        let stream = listen(&router, (header.0, &header.1)).await;
        let read = tokio::time::timeout(Duration::from_secs(121), stream.collect()).await;
        read.expect("it ends with the token, not a quarter of an hour later").unwrap();
    }
}

#[tokio::test]
async fn a_proxys_header_names_one_person() {
    let proxy = "[proxy]\ntrusted=['127.0.0.1/32']\nheader='X-Forwarded-Email'\nroles={admin=['a@x']}\nothers='viewer'\n";
    let router = of_file(proxy);
    let role = async |named: &[&str]| {
        let headers: Vec<_> = named.iter().map(|name| ("x-forwarded-email", *name)).collect();
        exchange(&router, "GET", "/api/v1/session", &headers, "").await.is(200)["role"].clone()
    };
    assert_eq!(role(&["a@x"]).await, "admin");
    // What came from outside and was passed on beside the proxy's own.
    assert_eq!(role(&["a@x", "b@x"]).await, Value::Null);
    assert_eq!(role(&["b@x", "a@x"]).await, Value::Null);
    assert_eq!(role(&[""]).await, Value::Null);
    assert_eq!(role(&["", "a@x"]).await, Value::Null);
    assert_eq!(role(&[&"a".repeat(201)]).await, Value::Null);
    assert_eq!(role(&["a@x, b@x"]).await, "viewer", "a name of its own");
    assert_eq!(role(&["A@X"]).await, "viewer");
    // Known by the proxy, from a page of somebody else.
    let anna = ("x-forwarded-email", "a@x");
    for foreign in [vec![anna], vec![anna, ("sec-fetch-site", "cross-site")], vec![anna, ("origin", "null")]]
    {
        exchange(&router, "POST", "/api/v1/queues/q/pause", &foreign, "")
            .await
            .refused(403, "foreign_origin");
    }
}

#[tokio::test]
async fn an_address_that_nobody_vouches_for_slows_nobody_else_down() {
    let token = NewToken::generate().unwrap();
    let router = of_file(&token_line(&token, ""));
    let wrong = async |address: &str| {
        let headers = [("authorization", "Bearer wl_0"), ("x-forwarded-for", address)];
        exchange(&router, "GET", "/api/v1/queues", &headers, "").await
    };
    for n in 0..5 {
        wrong(&format!("203.0.113.{n}")).await.refused(401, "unauthenticated");
    }
    let late = wrong("203.0.113.77").await.refused(429, "throttled");
    assert!(late.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() <= 121);
    let right = format!("Bearer {}", token.text);
    exchange(&router, "GET", "/api/v1/queues", &[("authorization", &right)], "").await.is(200);
}

#[tokio::test]
async fn a_token_in_the_header_is_asked_for_no_page() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let bearer = format!("Bearer {}", site.token(Role::Operator));
    let foreign = [
        ("authorization", bearer.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("origin", "https://evil.example"),
    ];
    site.send("POST", "/queues/mail/pause", &foreign, Value::Null).await.is(204);
    // One that is wrong is not made good by a cookie.
    let login = site.send("POST", "/session", &[OURS], json!({"token": site.token(Role::Operator)})).await;
    let cookie = cookie(&login);
    let both = [("authorization", "Bearer wl_0"), ("cookie", cookie.as_str()), OURS];
    site.send("POST", "/queues/mail/resume", &both, Value::Null).await.refused(401, "unauthenticated");
    assert!(site.client.queues().await.unwrap()[0].paused);
}

#[tokio::test]
async fn no_answer_can_be_framed_or_sniffed() {
    let site = Site::in_memory();
    let bearer = format!("Bearer {}", site.token(Role::Admin));
    let big = "x".repeat(20_000);
    let long = format!("/{big}");
    let mut statuses = BTreeSet::new();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/jobs"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/no/such/page.js"),
        ("GET", &long),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/api/v1/jobs"),
        ("GET", "/api/v1/jobs/7"),
        ("GET", "/api/v1/jobs?limit=0"),
        ("GET", "/api/v1/nothing"),
        ("TRACE", "/api/v1/jobs"),
        ("PUT", "/"),
        ("POST", "/api/v1/jobs"),
        ("GET", "/api/v1/live?topics=x"),
        ("POST", "/work/v1/workers"),
        ("GET", "/work/v1/nothing"),
    ] {
        let answer = exchange(&site.router, method, path, &[("authorization", &bearer)], "").await;
        let short: String = path.chars().take(40).collect();
        statuses.insert(answer.status);
        let header = |name: &str| answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("x-frame-options").as_deref(), Some("DENY"), "{method} {short}");
        assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{method} {short}");
        assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"), "{method} {short}");
        let policy = header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    assert!([200, 403, 404, 422].iter().all(|status| statuses.contains(status)), "{statuses:?}");
}
