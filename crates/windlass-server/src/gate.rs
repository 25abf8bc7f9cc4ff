//! Before every route of the API: who asks, may they, and from where; and the audit log after it.

use crate::{
    app::App,
    audit::{Attempt, Note, target_of},
    auth::{Identity, Role, Via, check_read, check_write},
    bodies::{Room, most_of},
    extract::{BODY_TIME, Most, late, read_whole},
    passed_over::{refuse_body, refuse_parameters},
    problem::Problem,
    replays::{Call, key_of},
    shell::{Answered, RequestId},
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch::Receiver, time::timeout};

/// How long an answer may take, the time to send the request's body included.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a worker's, which may wait for jobs for as long.
const WORK_TIMEOUT: Duration = Duration::from_secs(60);

/// How to become a worker.
const TOKEN_OF_WORKER: &str =
    "; make a token by `windlass token NAME --role worker` and start the server with --auth FILE";

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Reads.
    Read,
    /// Reads what is hidden from others.
    Reveal,
    /// Reads on and on.
    Stream,
    /// Changes something.
    Write,
    /// Works jobs.
    Work,
    /// Begins or ends a session: no change to the store.
    Session,
}

/// What a route asks of who calls it.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    /// Its name, also in the audit log.
    pub(crate) name: &'static str,
    /// The least role; `None`: nobody in particular.
    pub(crate) role: Option<Role>,
    pub(crate) does: Does,
    /// See [`Route::adds`](crate::routes::Route::adds).
    pub(crate) adds: bool,
    /// Whether it reads parameters; those of another are refused.
    pub(crate) has_query: bool,
    /// Whether it reads a body, if it writes; that of another is refused.
    pub(crate) has_body: bool,
    /// The largest body, in bytes.
    pub(crate) body_limit: usize,
}

pub(crate) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (name, does) = (gate.name, gate.does);
    let answer = async move { gate.pass(request, next).await.unwrap_or_else(IntoResponse::into_response) };
    let mut response = match does {
        Does::Write | Does::Reveal => to_its_end(answer).await,
        _ => answer.await,
    };
    response.extensions_mut().insert(Answered(name));
    response
}

/// Goes on though whoever asked has gone, so that what is done is also noted.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // the runtime ends, and this with it
        },
    }
}

impl Gate {
    async fn pass(&self, request: Request, next: Next) -> Result<Response, Problem> {
        let (mut parts, mut body) = request.into_parts();
        parts.extensions.insert(Most(self.body_limit));
        let length =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > self.body_limit as u64) {
            return Err(Problem::too_large(self.body_limit));
        }
        let writes = matches!(self.does, Does::Write | Does::Work | Does::Session);
        let Some(least) = self.role else {
            if writes {
                check_write(&parts.headers, self.app.auth.programs())?;
            }
            body = self.heard(&parts.uri, body).await?;
            return within(TIMEOUT, next.run(Request::from_parts(parts, body))).await;
        };
        let changes = self.app.auth.changes();
        let Some(identity) = self.app.auth.identify(&parts)? else {
            let detail = "log in: send `Authorization: Bearer` and a token, or POST /session";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail));
        };
        // A replay is for who still may.
        let id = match self.check(&identity, least, &parts.headers) {
            Ok(()) => self.call_of(&identity, &parts)?,
            Err(_) => None,
        };
        let call = match id {
            Some(id) => {
                self.make_room(&mut parts, most_of(&body, self.body_limit)).await?;
                let has_room = parts.extensions.get::<Room>().is_some();
                let whole = read_whole(body, self.body_limit, has_room).await?;
                body = Body::from(whole.clone());
                Some(Call::new(id, self.adds, &whole))
            }
            None => None,
        };
        let work = Box::pin(self.noted(identity, least, changes, parts, body, next));
        match call {
            Some(call) => self.app.replays.answer(call, work).await,
            None => work.await,
        }
    }

    /// What is done once under the key of a call, if it has one. An enqueue keeps its key in the store.
    fn call_of(&self, identity: &Identity, parts: &Parts) -> Result<Option<String>, Problem> {
        if self.does != Does::Write || parts.method != Method::POST || self.name == "jobs.enqueue" {
            return Ok(None);
        }
        let call = |key: &str| format!("{}\0{}\0{key}", identity.actor(), parts.uri.path());
        Ok(key_of(&parts.headers)?.map(call))
    }

    /// Does it, and notes that.
    async fn noted(
        &self,
        identity: Identity,
        least: Role,
        changes: Receiver<u64>,
        mut parts: Parts,
        body: Body,
        next: Next,
    ) -> Result<Response, Problem> {
        let _of_worker = (self.does == Does::Work).then(|| self.app.work.request());
        let target = target_of(parts.uri.path());
        let request_id = parts.extensions.get::<RequestId>().map_or_else(String::new, |id| id.0.clone());
        let allowed = match self.check(&identity, least, &parts.headers) {
            Ok(()) => self.taken(&mut parts, body).await,
            Err(problem) => Err(problem),
        };
        let response = match allowed {
            Err(problem) => Err(problem),
            Ok(body) => {
                parts.extensions.insert(identity.clone());
                if self.does == Does::Stream {
                    // From before it was known who asks.
                    parts.extensions.insert(changes);
                }
                let answer = next.run(Request::from_parts(parts, body));
                match self.does {
                    Does::Stream => Ok(answer.await),
                    Does::Work => within(WORK_TIMEOUT, answer).await,
                    _ => within(TIMEOUT, answer).await,
                }
            }
        };
        if !matches!(self.does, Does::Write | Does::Reveal) {
            return response;
        }
        let response = response.unwrap_or_else(IntoResponse::into_response);
        let extensions = response.extensions();
        let outcome = extensions.get::<Problem>().map_or("done", |problem| problem.code);
        let note = extensions.get::<Note>().cloned().unwrap_or_default();
        let attempt = Attempt { identity: &identity, action: self.name, target, outcome, request_id, note };
        match self.does {
            Does::Reveal if outcome == "done" => self.app.audit.record_or_refuse(attempt).await?,
            _ => self.app.audit.record(attempt).await,
        }
        Ok(response)
    }

    /// Refuses what the call would pass over; gives the body that it reads.
    async fn heard(&self, uri: &Uri, body: Body) -> Result<Body, Problem> {
        if !self.has_query {
            refuse_parameters(uri)?;
        }
        if self.has_body || self.does != Does::Write {
            return Ok(body);
        }
        timeout(BODY_TIME, refuse_body(body))
            .await
            .unwrap_or_else(|_| Err(late("the body did not arrive", BODY_TIME)))?;
        Ok(Body::empty())
    }

    /// The same, when there is room for it.
    async fn taken(&self, parts: &mut Parts, body: Body) -> Result<Body, Problem> {
        let body = self.heard(&parts.uri, body).await?;
        self.make_room(parts, most_of(&body, self.body_limit)).await?;
        Ok(body)
    }

    /// Whoever reads the body gives its room back.
    async fn make_room(&self, parts: &mut Parts, length: usize) -> Result<(), Problem> {
        if matches!(self.does, Does::Write | Does::Work) && parts.extensions.get::<Room>().is_none() {
            let room = self.app.bodies.room(length).await?;
            room.map(|room| parts.extensions.insert(room));
        }
        Ok(())
    }

    fn check(&self, identity: &Identity, least: Role, headers: &HeaderMap) -> Result<(), Problem> {
        // A browser adds its cookie and its address to whatever page asks, but no bearer.
        if identity.via() != Via::Bearer {
            match self.does {
                Does::Write | Does::Work | Does::Session => check_write(headers, self.app.auth.programs())?,
                _ => check_read(headers)?,
            }
        }
        if !identity.role().may(least) {
            let how = if least == Role::Worker { TOKEN_OF_WORKER } else { "" };
            let (name, actor, role) = (self.name, identity.actor(), identity.role());
            let detail = format!("{name} is for the role {least}; {actor} is {role}{how}");
            return Err(Problem::forbidden("permission_denied", detail));
        }
        if self.app.read_only && matches!(self.does, Does::Write | Does::Work) {
            return Err(Problem::forbidden(
                "read_only",
                "this server only shows; nothing can be changed here",
            ));
        }
        Ok(())
    }
}

async fn within<T>(time: Duration, answer: impl Future<Output = T>) -> Result<T, Problem> {
    timeout(time, answer).await.map_err(|_| {
        let detail = format!("no answer within {} s; a write may or may not have happened", time.as_secs());
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail)
    })
}
