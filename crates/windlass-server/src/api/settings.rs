use super::{Answer, Shared};
use crate::extract::Body;
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::json;
use windlass::{RetentionRule, Settings};

pub(crate) async fn show(State(app): Shared) -> Answer {
    Ok(Json(json!(app.client.settings().await?)))
}

pub(crate) async fn put(State(app): Shared, body: Body) -> Answer {
    let settings: Settings = body.read()?;
    app.client.configure(&settings).await?;
    Ok(Json(json!(app.client.settings().await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    items: Vec<RetentionRule>,
}

pub(crate) async fn retention(State(app): Shared) -> Answer {
    Ok(Json(json!({ "items": app.client.retention().await? })))
}

/// Keeps these rules; one that says nothing removes that of its queue and outcome.
pub(crate) async fn put_retention(State(app): Shared, body: Body) -> Answer {
    let Rules { items } = body.read()?;
    app.client.set_retention(&items).await?;
    Ok(Json(json!({ "items": app.client.retention().await? })))
}
