use super::site::{Site, exchange};
use crate::{Access, Identity, Role, Server};
use axum::{Router, http::request::Parts, routing::get};
use windlass::testing;

#[tokio::test]
async fn a_program_mounts_it_and_says_who_people_are() {
    let identify = |parts: &Parts| {
        let user = parts.headers.get("x-user")?.to_str().ok()?;
        Some(Identity::new(user, Role::Viewer))
    };
    let server = Server::builder(testing::client()).access(Access::program(identify)).build();
    let app =
        Router::new().route("/", get(|| async { "the shop" })).nest_service("/admin/jobs", server.router());
    assert_eq!(exchange(&app, "GET", "/", &[], "").await.text, "the shop");
    for path in ["/admin/jobs", "/admin/jobs/", "/admin/jobs/queues/mail.v2"] {
        let page = exchange(&app, "GET", path, &[], "").await;
        assert!(page.text.contains("<base href=\"/admin/jobs/\">"), "{path}: {}", page.text);
    }
    exchange(&app, "GET", "/admin/jobs/api/v1/queues", &[], "").await.refused(401, "unauthenticated");
    exchange(&app, "GET", "/admin/jobs/api/v1/nothing", &[], "").await.refused(404, "not_found");
    let anna = ("x-user", "anna");
    assert_eq!(exchange(&app, "GET", "/admin/jobs/api/v1/queues", &[anna], "").await.status, 200);
    let session = exchange(&app, "GET", "/admin/jobs/api/v1/session", &[anna], "").await.is(200);
    assert_eq!((&session["actor"], &session["role"]), (&"anna".into(), &"viewer".into()));
    // The program's cookies go with requests of foreign pages.
    let foreign = [anna, ("sec-fetch-site", "cross-site")];
    exchange(&app, "POST", "/admin/jobs/api/v1/queues/a/pause", &foreign, "")
        .await
        .refused(403, "foreign_origin");
}

/// Probes with a slash too many, and files of another version, were told that all is well.
#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let app = Site::in_memory().router;
    let app = Router::new().nest_service("/ops", app.clone()).fallback_service(app);
    for base in ["", "/ops"] {
        for path in ["/", "/jobs/7", "/jobs/a.b", "/queues/mail.v2", "/audit", "/schedules/", "/workers"] {
            let page = exchange(&app, "GET", &format!("{base}{path}"), &[], "").await;
            assert!(page.status == 200 && page.text.contains("<base"), "{path}: {}", page.status);
        }
        for path in ["/readyz/", "/healthz/", "/metrics/", "/health", "/nowhere/jobs"] {
            let page = exchange(&app, "GET", &format!("{base}{path}"), &[], "").await;
            assert!(page.status == 404 && page.text.contains("<base"), "{path}: {}", page.status);
            assert_eq!(page.headers["cache-control"], "no-cache");
        }
        for path in ["/app-0000000000.js", "/favicon.ico", "/.well-known/x", "/index.html"] {
            exchange(&app, "GET", &format!("{base}{path}"), &[], "").await.refused(404, "not_found");
        }
    }
}

#[tokio::test]
async fn bearers_at_a_mounted_server_are_the_programs() {
    let identify = |parts: &Parts| {
        let token = parts.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
        (token == "a.b.c").then(|| Identity::new("anna", Role::Operator))
    };
    let server = Server::builder(testing::client()).access(Access::program(identify)).build();
    let app = Router::new().nest_service("/jobs", server.router());
    let path = "/jobs/api/v1/queues";
    for _ in 0..10 {
        exchange(&app, "GET", path, &[("authorization", "Bearer x")], "")
            .await
            .refused(401, "unauthenticated");
    }
    let anna = [("authorization", "Bearer a.b.c"), ("content-type", "application/json")];
    assert_eq!(exchange(&app, "GET", path, &anna, "").await.status, 200);
    let jobs = r#"{"jobs":[{"kind":"a","args":{}}]}"#;
    assert_eq!(exchange(&app, "POST", "/jobs/api/v1/jobs", &anna, jobs).await.status, 201);
}

#[tokio::test]
async fn browsers_are_told_to_trust_nothing_else() {
    let site = Site::in_memory();
    for path in ["/", "/jobs/7", "/api/v1/queues", "/api/v1/openapi.json", "/healthz"] {
        let answer = site.send_text("GET", path, &[], "").await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        let cache = if path.starts_with("/api") || path == "/healthz" { "no-store" } else { "no-cache" };
        assert_eq!(answer.headers["cache-control"], cache, "{path}");
    }
    site.send_text("POST", "/jobs", &[], "").await.refused(405, "method_not_allowed");
    let id =
        site.send_text("GET", "/api/v1/queues", &[("x-request-id", "r-1")], "").await.headers["x-request-id"]
            .clone();
    assert_eq!(id, "r-1");
    let other =
        site.send_text("GET", "/api/v1/queues", &[("x-request-id", "<r>")], "").await.headers["x-request-id"]
            .clone();
    assert_ne!(other, "<r>");
}
