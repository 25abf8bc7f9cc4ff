use super::fits::Fits;
use crate::{Access, AuthFile, NewToken, Role, Server};
use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{HeaderMap, Method, Request},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tempfile::TempDir;
use tower::ServiceExt;
use windlass::{Args, Client, JobId, NewJob, testing};

/// A server of a store with a token for each role.
pub(super) struct Site {
    pub(super) client: Client,
    pub(super) router: Router,
    pub(super) server: Server,
    tokens: Vec<NewToken>,
    fits: Fits,
    _folder: Option<TempDir>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

impl Answer {
    /// It is a refusal with this status and code.
    #[track_caller]
    pub(super) fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["request_id"].as_str(), self.headers["x-request-id"].to_str().ok());
        self
    }

    #[track_caller]
    pub(super) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }
}

impl Site {
    /// One of each store.
    pub(super) async fn all() -> [Self; 2] {
        let folder = TempDir::new().unwrap();
        let client = Client::connect(&format!("sqlite:{}/jobs.db", folder.path().display())).await.unwrap();
        client.migrate().await.unwrap();
        let on_disk = Self { _folder: Some(folder), ..Self::of(client, |builder| builder) };
        [Self::in_memory(), on_disk]
    }

    /// Those, and PostgreSQL where there is one (`scripts/with-postgres`).
    pub(super) async fn all_stores() -> Vec<Self> {
        let mut all = Vec::from(Self::all().await);
        if let Ok(url) = std::env::var("WINDLASS_TEST_POSTGRES") {
            let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let client = Client::connect(&format!("{url}?schema=server_{}", at.as_nanos())).await.unwrap();
            client.migrate().await.unwrap();
            all.push(Self::of(client, |builder| builder));
        }
        all
    }

    /// Which store it has, for messages.
    pub(super) async fn name(&self) -> String {
        self.client.status().await.unwrap().store
    }

    pub(super) fn in_memory() -> Self {
        Self::of(testing::client(), |builder| builder)
    }

    pub(super) fn of(client: Client, with: impl FnOnce(crate::Builder) -> crate::Builder) -> Self {
        let tokens: Vec<_> = Role::ALL.iter().map(|_| NewToken::generate().unwrap()).collect();
        let text = format!("{}[redact]\nkinds.\"mail.*\" = ['to']\n", lines(&Role::ALL, &tokens));
        let access = Access::file(AuthFile::parse(&text).unwrap());
        let server = with(Server::builder(client.clone()).access(access)).build();
        Self { router: server.router(), server, client, tokens, fits: Fits::new(), _folder: None }
    }

    /// The lines of an auth file with the tokens of these roles.
    pub(super) fn lines_of(&self, roles: &[Role]) -> String {
        lines(roles, &self.tokens)
    }

    pub(super) fn token(&self, role: Role) -> &str {
        &self.tokens[Role::ALL.iter().position(|other| *other == role).unwrap()].text
    }

    /// Asks as somebody of this role.
    pub(super) async fn ask(&self, role: Role, method: &str, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {}", self.token(role));
        let sent = body.clone();
        let answer = self.send(method, path, &[("authorization", &bearer)], body).await;
        if answer.status < 300 && !sent.is_null() {
            self.fits.request(&method.parse().unwrap(), path, &sent);
        }
        answer
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask(Role::Viewer, "GET", path, Value::Null).await
    }

    /// Asks with these headers.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let json = [("content-type", "application/json")];
        let headers: Vec<_> =
            headers.iter().copied().chain(json.into_iter().filter(|_| !body.is_null())).collect();
        self.send_text(method, &format!("/api/v1{path}"), &headers, text).await
    }

    pub(super) async fn send_text(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let answer = exchange(&self.router, method, path, headers, body).await;
        if let Some(path) = path.strip_prefix("/api/v1") {
            let method: Method = method.parse().unwrap();
            self.fits.answer(&method, path, answer.status, &answer.body);
        }
        answer
    }

    pub(super) async fn enqueue(&self, kind: &'static str, args: Value) -> JobId {
        self.client.enqueue(NewJob::new(kind, Args::of(&args).unwrap()).with_queue("mail")).await.unwrap()
    }

    /// Everything that a write would change.
    pub(super) async fn snapshot(&self) -> String {
        let jobs = self.client.jobs(&Default::default()).await.unwrap();
        let schedules = self.client.schedules().list(&Default::default()).await.unwrap();
        let settings = self.client.settings().await.unwrap();
        let retention = self.client.retention().await.unwrap();
        let queues = self.client.queues().await.unwrap();
        let keys = self.client.key_limits("mail").await.unwrap();
        let schedules: Vec<_> = schedules.iter().map(windlass_bridge::schedule_json).collect();
        json!([jobs, schedules, settings, retention, queues, keys]).to_string()
    }
}

/// One request from this machine.
pub(super) async fn exchange(
    router: &Router,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(body.into()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    Answer { status: parts.status.as_u16(), headers: parts.headers, text, body }
}

fn lines(roles: &[Role], tokens: &[NewToken]) -> String {
    let known = Role::ALL.iter().zip(tokens).filter(|(role, _)| roles.contains(role));
    let line = |(role, token): (&Role, &NewToken)| {
        format!("[[token]]\nname = '{role}'\nrole = '{role}'\nsha256 = '{}'\n", token.sha256)
    };
    known.map(line).collect()
}
