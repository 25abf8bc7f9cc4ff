//! Around every answer: the id of the request, the headers that browsers need to be told, problems written out.

use crate::{app::App, connections::Stopping, metrics::Served, problem::Problem};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc};
use tokio::time::Instant;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longer ids of proxies are not taken over.
const LONGEST_ID: usize = 64;

/// No inline script or style, nothing from elsewhere, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      font-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// How the log calls a request, and its problems do.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// The route that answered, for the metrics.
#[derive(Clone, Copy)]
pub(crate) struct Answered(pub(crate) &'static str);

pub(crate) async fn shell(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    request.extensions_mut().insert(RequestId(id.clone()));
    let answering = async {
        // Probes come by whatever name the machine has.
        let is_late = request.extensions().get::<Stopping>().is_some();
        let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
        match app.auth.check_host(request.headers()) {
            Err(problem) if !is_probe => problem.into_response(),
            _ if is_late && !is_probe => {
                let detail = "the server stops; nothing was done, try again";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
                    .retry_after(1)
                    .into_response()
            }
            _ => next.run(request).await,
        }
    };
    let mut response = AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(request_id = id, "a request panicked");
        let detail = "the server failed; its log says more under this request_id";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
    });
    let route = response.extensions().get::<Answered>().map_or("other", |answered| answered.0);
    if let Some(problem) = response.extensions().get::<Problem>() {
        problem.log(&id, route);
        response = problem.response(&id);
    }
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    app.metrics.served(&Served { route, method: &method, status: response.status() }, began.elapsed());
    response
}

/// The proxy's, or one of our own.
fn request_id(headers: &HeaderMap) -> String {
    let is_plain = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_plain);
    given.map_or_else(|| format!("{:016x}", fastrand::u64(..)), str::to_owned)
}
