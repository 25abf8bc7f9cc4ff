use super::{Answer, Shared};
use crate::{TraceUrl, extract::Body, problem::Problem};
use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// Who asks, and what they may do here.
pub(crate) async fn show(State(app): Shared, parts: Parts) -> Answer {
    let identity = app.auth.identify(&parts)?;
    let mut answer =
        json!({ "actor": null, "role": null, "login": app.auth.has_login(), "read_only": app.read_only });
    if let Some(identity) = identity {
        answer["actor"] = identity.actor().into();
        answer["role"] = identity.role().as_str().into();
        answer["login"] = false.into();
        answer["version"] = env!("CARGO_PKG_VERSION").into();
        answer["trace_url"] = app.trace_url.as_ref().map(TraceUrl::as_str).into();
        // Who asks is known, also while the store is away: the pages say so themselves, and go on when it is back.
        answer["store"] = app.store().await.into();
    }
    Ok(Json(answer))
}

/// A cookie for a token.
pub(crate) async fn login(State(app): Shared, mut parts: Parts, body: Body) -> Result<Response, Problem> {
    let Login { token } = body.read()?;
    let (identity, cookie) = app.auth.login(&parts, &token)?;
    tracing::info!(target: "windlass::audit", actor = identity.actor(), role = %identity.role(), "a session began");
    let (base, secure) = app.base(&mut parts).await;
    no_content(&app.auth.cookie().set(Some(&cookie), &base, secure))
}

/// The end of a session.
pub(crate) async fn logout(State(app): Shared, mut parts: Parts) -> Result<Response, Problem> {
    app.auth.logout(&parts.headers);
    let (base, secure) = app.base(&mut parts).await;
    no_content(&app.auth.cookie().set(None, &base, secure))
}

fn no_content(cookie: &str) -> Result<Response, Problem> {
    let cookie = HeaderValue::from_str(cookie)
        .map_err(|_| Problem::invalid("the path of this server cannot be that of a cookie"))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
