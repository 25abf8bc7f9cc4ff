use super::{
    log::Failing,
    site::{Answer, Site, exchange},
};
use crate::{Access, AuthFile, NewToken, Role, Server};
use axum::{Router, body::Body, extract::ConnectInfo, http::Request};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::time::Instant;
use tower::ServiceExt;
use windlass::{Client, StoreStatus, testing};
use windlass_core::{Store, wrap_store};

const OURS: (&str, &str) = ("sec-fetch-site", "same-origin");
const JSON: (&str, &str) = ("content-type", "application/json");
const HOST: (&str, &str) = ("host", "localhost:7411");

fn cookie(answer: &Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_changed_for_a_cookie() {
    let site = Site::in_memory();
    assert_eq!(
        site.send("GET", "/session", &[], Value::Null).await.is(200),
        json!({"actor": null, "role": null, "login": true, "read_only": false})
    );
    let login = json!({"token": site.token(Role::Operator)});
    let answer = site.send("POST", "/session", &[OURS], login).await;
    assert_eq!(answer.status, 204);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    assert!(
        set.contains("; Path=/;") && set.contains("HttpOnly") && set.contains("SameSite=Strict"),
        "{set}"
    );
    assert!(!set.contains(site.token(Role::Operator)));
    let cookie = cookie(&answer);
    let shown = site.send("GET", "/session", &[("cookie", &cookie)], Value::Null).await.is(200);
    assert_eq!(
        (&shown["actor"], &shown["role"], &shown["login"]),
        (&json!("operator"), &json!("operator"), &json!(false))
    );

    site.enqueue("a", json!({})).await;
    let pause = |headers: Vec<(&'static str, &'static str)>, cookie: String| {
        let site = &site;
        async move {
            let headers: Vec<_> = headers.iter().copied().chain([("cookie", cookie.as_str())]).collect();
            site.send("POST", "/queues/mail/pause", &headers, Value::Null).await
        }
    };
    // A page of somebody else makes the browser send the cookie: it does not help.
    for foreign in [
        vec![],
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site"), ("origin", "https://jobs.example"), ("host", "jobs.example")],
        vec![("origin", "https://evil.example"), ("host", "jobs.example")],
    ] {
        pause(foreign, cookie.clone()).await.refused(403, "foreign_origin");
    }
    let read = [("cookie", cookie.as_str()), ("sec-fetch-site", "cross-site")];
    site.send("GET", "/queues", &read, Value::Null).await.refused(403, "foreign_origin");
    assert!(!site.client.queues().await.unwrap()[0].paused);
    pause(vec![OURS], cookie.clone()).await.is(204);

    let out = site.send("DELETE", "/session", &[OURS, ("cookie", &cookie)], Value::Null).await;
    assert!(out.status == 204 && out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    pause(vec![OURS], cookie).await.refused(401, "unauthenticated");
    site.send("POST", "/session", &[OURS], json!({"token": "wl_0"})).await.refused(401, "unauthenticated");
    let foreign = json!({"token": site.token(Role::Admin)});
    site.send("POST", "/session", &[("sec-fetch-site", "cross-site")], foreign)
        .await
        .refused(403, "foreign_origin");
}

#[tokio::test]
async fn who_asks_is_known_while_the_store_is_away() {
    let store = Arc::clone(testing::client().store());
    let site = Site::of(Client::from_store(Arc::new(Failing { store })), |builder| builder);
    let shown = site.ask(Role::Operator, "GET", "/session", Value::Null).await.is(200);
    assert_eq!((&shown["actor"], &shown["store"]), (&json!("operator"), &Value::Null));
}

/// A store that never says anything of itself.
struct Silent {
    store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Silent, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events wakeup close]

    async fn status(&self) -> windlass_core::Result<StoreStatus> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_long_to_be_told_who_they_are() {
    let store = Arc::clone(testing::client().store());
    let site = Site::of(Client::from_store(Arc::new(Silent { store })), |builder| builder);
    let began = Instant::now();
    let ask = || async { site.ask(Role::Operator, "GET", "/session", Value::Null).await.is(200) };
    for shown in futures_util::future::join_all((0..5).map(|_| ask())).await {
        assert_eq!((&shown["actor"], &shown["store"]), (&json!("operator"), &Value::Null));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_token_that_sees_no_page_begins_no_session() {
    let site = Site::in_memory();
    let login = json!({"token": site.token(Role::Worker)});
    let answer = site.send("POST", "/session", &[OURS], login).await.refused(403, "permission_denied");
    assert!(!answer.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn this_machine_looks_and_nobody_else_does() {
    let server = Server::builder(testing::client()).port(7411).build();
    let router = server.router();
    for host in ["localhost:7411", "127.0.0.1:7411", "127.0.0.2:7411", "[::1]:7411"] {
        let shown = exchange(&router, "GET", "/api/v1/session", &[("host", host)], "").await.is(200);
        assert_eq!((&shown["role"], &shown["login"]), (&json!("viewer"), &json!(false)));
    }
    for (headers, status, code) in [
        // A name of somebody else that leads here.
        (vec![("host", "evil.example:7411")], 421, "wrong_host"),
        (vec![("host", "localhost:80")], 421, "wrong_host"),
        (vec![], 421, "wrong_host"),
        (vec![HOST, ("x-forwarded-for", "10.0.0.1")], 403, "forwarded"),
        (vec![HOST, ("forwarded", "for=10.0.0.1")], 403, "forwarded"),
        (vec![HOST, ("sec-fetch-site", "cross-site")], 403, "foreign_origin"),
    ] {
        exchange(&router, "GET", "/api/v1/queues", &headers, "").await.refused(status, code);
    }
    exchange(&router, "GET", "/", &[("host", "evil.example:7411")], "").await.refused(421, "wrong_host");
    // No token is right here: what would give one is said, not that one is to be sent.
    for path in ["/api/v1/jobs", "/work/v1/workers"] {
        for (bearer, status) in [(None, 403), (Some(("authorization", "Bearer wl_abc")), 401)] {
            let headers: Vec<_> = [HOST].into_iter().chain(bearer).collect();
            let refused = exchange(&router, "POST", path, &headers, "{}").await.is(status);
            let detail = refused["detail"].as_str().unwrap();
            assert!(
                detail.contains("with `--auth FILE`") || detail.contains("without `--auth FILE`"),
                "{detail}"
            );
        }
    }
    exchange(&router, "POST", "/api/v1/queues/a/pause", &[HOST, OURS], "")
        .await
        .refused(403, "permission_denied");

    let mut request =
        Request::get("/api/v1/queues").header("host", "localhost:7411").body(Body::empty()).unwrap();
    let unknown = router.clone().oneshot(request_clone(&request)).await.unwrap();
    assert_eq!(unknown.status(), 500);
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 40_000))));
    assert_eq!(router.clone().oneshot(request).await.unwrap().status(), 401);
}

fn request_clone(request: &Request<Body>) -> Request<Body> {
    Request::get(request.uri()).header("host", "localhost:7411").body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_key_of_the_start_is_good_once_and_not_for_long() {
    let server = Server::builder(testing::client()).port(7411).build();
    let router = server.router();
    let login = |key: String| {
        let router = router.clone();
        async move {
            let body = json!({ "token": key }).to_string();
            exchange(&router, "POST", "/api/v1/session", &[HOST, OURS, JSON], body).await
        }
    };
    let key = server.start_key().unwrap().unwrap();
    login("wl_".into()).await.refused(401, "unauthenticated");
    let answer = login(key.clone()).await;
    assert_eq!(answer.status, 204);
    login(key).await.refused(401, "unauthenticated");
    let cookie = cookie(&answer);
    let shown = exchange(&router, "GET", "/api/v1/session", &[HOST, ("cookie", &cookie)], "").await.is(200);
    assert_eq!(shown["role"], "admin");
    let key = server.start_key().unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(601)).await;
    login(key).await.refused(401, "unauthenticated");
}

/// Browsers send both cookies to both, whatever the ports.
#[tokio::test]
async fn a_session_at_another_port_of_this_machine_ends_none_here() {
    let (mut jar, mut routers) = (Vec::new(), Vec::new());
    for port in [7411, 7412] {
        let server = Server::builder(testing::client()).port(port).build();
        let body = json!({ "token": server.start_key().unwrap().unwrap() }).to_string();
        let host = format!("localhost:{port}");
        let headers = [("host", host.as_str()), OURS, JSON];
        let set = cookie(&exchange(&server.router(), "POST", "/api/v1/session", &headers, body).await);
        let name = set.split('=').next().unwrap().to_owned();
        jar.retain(|kept: &(String, String)| kept.0 != name);
        jar.push((name, set));
        routers.push((server.router(), host));
    }
    let all = jar.iter().map(|(_, cookie)| cookie.as_str()).collect::<Vec<_>>().join("; ");
    for (router, host) in &routers {
        let headers = [("host", host.as_str()), ("cookie", all.as_str())];
        let shown = exchange(router, "GET", "/api/v1/session", &headers, "").await.is(200);
        assert_eq!(shown["role"], "admin", "{host}");
    }
}

/// A proxy that knows nobody: there are tokens, and it says how it was reached and from where.
#[tokio::test]
async fn a_trusted_proxy_ends_tls_for_those_with_tokens() {
    let token = NewToken::generate().unwrap();
    let file = format!(
        "[[token]]\nname='t'\nrole='viewer'\nsha256='{}'\n[proxy]\ntrusted=['127.0.0.1/32']\n",
        token.sha256
    );
    let access = Access::file(AuthFile::parse(&file).unwrap());
    let router = Server::builder(testing::client()).access(access).build().router();
    let login = |token: String, headers: Vec<(&'static str, &'static str)>| {
        let router = router.clone();
        async move {
            let headers: Vec<_> = [OURS, JSON].into_iter().chain(headers).collect();
            let body = json!({ "token": token }).to_string();
            exchange(&router, "POST", "/api/v1/session", &headers, body).await
        }
    };
    for (headers, is_secure) in [(vec![("x-forwarded-proto", "https")], true), (vec![], false)] {
        let answer = login(token.text.clone(), headers).await;
        let set = answer.headers["set-cookie"].to_str().unwrap();
        assert_eq!(set.ends_with("; Secure"), is_secure, "{set}");
    }
    // Each address behind it is slowed down by itself.
    let from = |address| vec![("x-forwarded-for", address)];
    for _ in 0..5 {
        login("wl_0".into(), from("192.0.2.7, 203.0.113.1")).await.refused(401, "unauthenticated");
    }
    login("wl_0".into(), from("203.0.113.1")).await.refused(429, "throttled");
    login("wl_0".into(), from("203.0.113.2")).await.refused(401, "unauthenticated");
    // No header names anybody here.
    let anna = [("x-forwarded-email", "a@x")];
    exchange(&router, "GET", "/api/v1/queues", &anna, "").await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_trusted_proxy_says_who_it_is() {
    let token = NewToken::generate().unwrap();
    let file = format!(
        "hosts = ['jobs.example']\n[[token]]\nname='t'\nrole='viewer'\nsha256='{}'\n\
         [proxy]\ntrusted=['127.0.0.1/32']\nheader='X-Forwarded-Email'\nroles={{operator=['a@x']}}\n",
        token.sha256
    );
    let of = |trusted: &str| -> Router {
        let file = AuthFile::parse(&file.replace("127.0.0.1/32", trusted)).unwrap();
        Server::builder(testing::client()).access(Access::file(file)).build().router()
    };
    let (near, far) = (of("127.0.0.1/32"), of("10.0.0.0/8"));
    let host = ("host", "jobs.example:443");
    let [anna, other] = [("x-forwarded-email", "a@x"), ("x-forwarded-email", "b@x")];
    let ask = |router: Router, headers: Vec<(&'static str, &'static str)>| async move {
        exchange(&router, "GET", "/api/v1/session", &headers, "").await.is(200)["role"].clone()
    };
    assert_eq!(ask(near.clone(), vec![host, anna]).await, "operator");
    assert_eq!(ask(near.clone(), vec![host, other]).await, Value::Null);
    assert_eq!(ask(far, vec![host, anna]).await, Value::Null);
    exchange(&near, "GET", "/api/v1/session", &[("host", "evil.example"), anna], "")
        .await
        .refused(421, "wrong_host");
    let page = exchange(&near, "GET", "/jobs", &[host, ("x-forwarded-prefix", "/ops/")], "").await;
    assert!(page.text.contains("<base href=\"/ops/\">"), "{}", page.text);
    let body = json!({"token": token.text}).to_string();
    let https = [host, OURS, JSON, ("x-forwarded-proto", "https"), ("x-forwarded-prefix", "/ops")];
    let answer = exchange(&near, "POST", "/api/v1/session", &https, body).await;
    let set = answer.headers["set-cookie"].to_str().unwrap();
    assert!(set.contains("; Path=/ops/;") && set.ends_with("; Secure"), "{set}");
}
