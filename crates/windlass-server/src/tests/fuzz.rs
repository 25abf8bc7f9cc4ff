//! Every route under nonsense: whatever is asked, the answer is one of a server that goes on, and tells nobody what is hidden.
//!
//! `WINDLASS_FUZZ_SEED` repeats a run, `WINDLASS_FUZZ_ROUNDS` makes it longer.

mod noise;

use super::site::Site;
use crate::{
    Role,
    routes::{Route, routes, work_routes},
};
use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{Request, Response, header},
};
use fastrand::Rng;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr};
use tower::ServiceExt;
use windlass::{Args, Client, NewJob, Schedule};

const SECRET: &str = "hunter2-and-more";
const ROUNDS: usize = 40;
/// So many jobs have the secret: random deletes leave some.
const JOBS: usize = 30;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A store with something of all sorts, and the names of it by how their paths begin.
async fn furnished(site: &Site) -> Vec<(&'static str, Vec<String>)> {
    let mut ids = Vec::new();
    for n in 0..JOBS {
        ids.push(site.enqueue("mail.send", json!({"password": SECRET, "n": n})).await.to_string());
    }
    let job = NewJob::new("nightly", Args::of(&json!({"token": SECRET})).unwrap());
    site.client.schedules().put([Schedule::new("nightly", "@daily", job)]).await.unwrap();
    let bearer = format!("Bearer {}", site.token(Role::Worker));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answer = site.send_text("POST", "/work/v1/workers", &headers, r#"{"queues":{"none":1}}"#).await;
    let worker = answer.is(201)["worker"].as_str().unwrap().to_owned();
    let preview = json!({"action": "cancel", "ids": [ids[0]]});
    let preview = site.ask(Role::Operator, "POST", "/bulk", preview).await.is(201);
    let bulk = preview["id"].as_str().unwrap().to_owned();
    vec![
        ("/bulk", vec![bulk]),
        ("/schedules", vec!["nightly".to_owned()]),
        ("/queues", vec!["mail".to_owned()]),
        ("/workers", vec![worker]),
        ("", ids),
    ]
}

/// One of each store; of PostgreSQL, too, inside scripts/with-postgres.
async fn sites() -> Vec<Site> {
    let mut sites = Vec::from(Site::all().await);
    if let Ok(url) = std::env::var("WINDLASS_TEST_POSTGRES") {
        let client = Client::connect(&format!("{url}?schema=fuzz_{:016x}", fastrand::u64(..))).await.unwrap();
        client.migrate().await.unwrap();
        sites.push(Site::of(client, |builder| builder));
    }
    sites
}

/// One request; the text of its answer, but of a stream, which has no end.
async fn send(site: &Site, request: Request<Body>) -> (Response<()>, String) {
    let (parts, body) = site.router.clone().oneshot(request).await.unwrap().into_parts();
    let streams =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes() == b"text/event-stream");
    let bytes = if streams { Vec::new() } else { body.collect().await.unwrap().to_bytes().to_vec() };
    (Response::from_parts(parts, ()), String::from_utf8(bytes).unwrap())
}

/// A refusal says what it is to programs and people.
fn hold_problem(answer: &Response<()>, text: &str, what: &str) {
    let body: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{what}: no document: {text}"));
    assert_eq!(answer.headers()["content-type"], "application/problem+json", "{what}: {text}");
    assert_eq!(body["status"], answer.status().as_u16(), "{what}: {text}");
    assert_eq!(body["request_id"].as_str(), answer.headers()["x-request-id"].to_str().ok(), "{what}");
    for field in ["type", "title", "detail", "code"] {
        assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{what}: no {field}: {text}");
    }
}

fn request(
    rng: &mut Rng,
    site: &Site,
    route: &Route,
    under: &str,
    names: &[String],
) -> (Request<Body>, Role) {
    let least = route.role.unwrap_or(Role::Viewer);
    let role = if rng.u8(..4) > 0 { least } else { Role::ALL[rng.usize(..Role::ALL.len())] };
    let uri = format!("{under}{}{}", noise::path(rng, route.path, names), noise::query(rng, route.query));
    let method = if rng.u8(..20) > 0 {
        route.method.as_str()
    } else {
        noise::METHODS[rng.usize(..noise::METHODS.len())]
    };
    let mut request = Request::builder().method(method).uri(uri);
    request = match rng.u8(..30) {
        0 => request.header("authorization", noise::header(rng)),
        1 => request,
        _ => request.header("authorization", format!("Bearer {}", site.token(role))),
    };
    if rng.u8(..10) > 0 {
        request = request.header("content-type", "application/json");
    }
    if rng.u8(..4) == 0 {
        let name = ["idempotency-key", "cookie", "host", "range", "origin", "content-length", "content-type"];
        request = request.header(name[rng.usize(..name.len())], noise::header(rng));
    }
    let body = noise::body(rng, route.name, names);
    let mut request = request.body(Body::from(body)).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
    (request, role)
}

#[tokio::test]
async fn nonsense_is_refused_by_a_server_that_goes_on() {
    let seed = variable("WINDLASS_FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("WINDLASS_FUZZ_SEED={seed} repeats this");
    let rounds = variable("WINDLASS_FUZZ_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    for site in sites().await {
        let mut rng = Rng::with_seed(seed);
        let furniture = furnished(&site).await;
        let of_people = routes().into_iter().map(|route| ("/api/v1", route));
        let all: Vec<_> =
            of_people.chain(work_routes().into_iter().map(|route| ("/work/v1", route))).collect();
        let mut taken = BTreeMap::new();
        for _ in 0..rounds {
            for (under, route) in &all {
                let of_route = furniture.iter().find(|(start, _)| route.path.starts_with(start)).unwrap();
                let (request, role) = request(&mut rng, &site, route, under, &of_route.1);
                let what = format!("{} {} as {role}", request.method(), request.uri());
                let (answer, text) = send(&site, request).await;
                let status = answer.status().as_u16();
                assert!(status < 500, "{what}: {status} {text}");
                *taken.entry(route.name).or_insert(0) += usize::from(status < 300);
                if status >= 400
                    && answer.headers().get("allow").is_none_or(|_| !text.is_empty())
                    && !what.starts_with("HEAD")
                {
                    hold_problem(&answer, &text, &what);
                }
                let may_see =
                    role == Role::Admin && route.name == "jobs.reveal" || route.name.starts_with("work.");
                assert!(may_see || !text.contains(SECRET), "{what} tells what is hidden: {text}");
            }
        }
        // The noise is near enough to what is right that most handlers are reached.
        let reached = taken.values().filter(|taken| **taken > 0).count();
        assert!(reached * 2 > all.len() || rounds < ROUNDS, "{taken:?}");
        // It serves as before.
        let jobs = site.get("/jobs?queue=mail").await.is(200);
        assert!(jobs["items"].as_array().is_some(), "{jobs}");
        site.get("/overview").await.is(200);
        site.enqueue("after", json!({})).await;
    }
}

#[tokio::test]
async fn no_route_reads_more_than_its_bound() {
    let site = Site::in_memory();
    for (under, route) in routes()
        .into_iter()
        .map(|route| ("/api/v1", route))
        .chain(work_routes().into_iter().map(|route| ("/work/v1", route)))
    {
        if route.takes.is_none() && !route.name.starts_with("work.") || route.name == "work.end" {
            continue;
        }
        let path = format!("{under}{}", route.path.replace(['{', '}'], ""));
        let role = route.role.unwrap_or(Role::Admin);
        let bearer = format!("Bearer {}", site.token(role));
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("sec-fetch-site", "same-origin"),
        ];
        // Its length is not said: it is found out while it is read.
        let body = format!("{{\"jobs\":\"{}\"}}", "x".repeat(route.body_limit));
        let answer = site.send_text(route.method.as_str(), &path, &headers, body).await;
        // Whose worker does not exist is told so before anything is read.
        if answer.status != 404 {
            let answer = answer.refused(413, "too_large");
            let most = format!("larger than the {} bytes", route.body_limit);
            assert!(answer.text.contains(&most), "{}", answer.text);
        }
    }
    site.get("/jobs").await.is(200);
}
