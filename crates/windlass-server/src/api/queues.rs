use super::{Answer, Shared};
use crate::{
    app::App,
    extract::{Body, Name},
    problem::Problem,
};
use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use windlass::QueueLimits;

pub(crate) async fn list(State(app): Shared) -> Answer {
    Ok(Json(json!({ "items": app.client.queues().await? })))
}

pub(crate) async fn show(State(app): Shared, Name(queue): Name) -> Answer {
    Ok(Json(one(&app, &queue).await?))
}

/// A queue with its limits of keys and its workers.
pub(crate) async fn one(app: &App, queue: &str) -> Result<Value, Problem> {
    let status = app.client.status().await?;
    let found = status.queues.iter().find(|stats| stats.name == queue);
    let found = found.ok_or_else(|| Problem::not_found(format!("queue {queue:?} does not exist")))?;
    let workers: Vec<_> =
        status.workers.iter().filter(|worker| worker.queues.iter().any(|of| of == queue)).collect();
    let mut shown = json!(found);
    shown["key_limits"] = json!(app.client.key_limits(queue).await?);
    shown["workers"] = json!(workers);
    Ok(shown)
}

pub(crate) async fn pause(State(app): Shared, Name(queue): Name) -> Result<StatusCode, Problem> {
    app.client.pause(&queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resume(State(app): Shared, Name(queue): Name) -> Result<StatusCode, Problem> {
    app.client.resume(&queue).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn limit(State(app): Shared, Name(queue): Name, body: Body) -> Answer {
    let limits: QueueLimits = body.read()?;
    app.client.limit(&queue, &limits).await?;
    let queues = app.client.queues().await?;
    let found = queues.into_iter().find(|stats| stats.name == queue);
    Ok(Json(json!(found.ok_or_else(|| Problem::not_found(format!("queue {queue:?} does not exist")))?)))
}
