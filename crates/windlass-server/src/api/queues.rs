use super::{Answer, Listed, Shared, page_size};
use crate::{
    app::App,
    extract::{Body, Name, Query},
    problem::Problem,
};
use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::try_join;
use windlass::{KeyLimits, QueueFilter, QueueLimits, QueueStats};

/// How many named keys are shown with their queue.
const NAMED: usize = 50;

/// A page of queues, by name. Those of other pages are not counted.
pub(crate) async fn list(State(app): Shared, Query(asked): Query<Listed>) -> Answer {
    let most = page_size(asked.limit)?;
    // One more, which says whether there are more.
    let Listed { search, after, .. } = asked;
    let filter = QueueFilter { name: None, search, after, limit: Some(most + 1) };
    let mut queues = app.client.queues_by(&filter).await?;
    let more = queues.len() > most as usize;
    queues.truncate(most as usize);
    let next = queues.last().filter(|_| more).map(|queue| queue.name.clone());
    Ok(Json(json!({ "items": queues, "next": next })))
}

pub(crate) async fn show(State(app): Shared, Name(queue): Name) -> Answer {
    Ok(Json(one(&app, &queue).await?))
}

/// A queue with its limits of keys and its workers.
pub(crate) async fn one(app: &App, queue: &str) -> Result<Value, Problem> {
    let (found, status, limits) =
        try_join!(app.client.queue(queue), app.client.status(), app.client.key_limits(queue))?;
    let mut shown = json!(found.ok_or_else(|| unknown(queue))?);
    let workers: Vec<_> =
        status.workers.iter().filter(|worker| worker.queues.iter().any(|of| of == queue)).collect();
    shown["key_limits"] = json!(limits.as_ref().map(first));
    shown["workers"] = json!(workers);
    Ok(shown)
}

/// Limits of keys: of the named ones the first, and how many there are.
fn first(limits: &KeyLimits) -> Value {
    let named: BTreeMap<_, _> = limits.named.iter().take(NAMED).collect();
    json!({ "default": limits.default, "named": named, "named_count": limits.named.len() })
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
    Ok(Json(json!(known(&app, &queue).await?)))
}

pub(super) async fn known(app: &App, queue: &str) -> Result<QueueStats, Problem> {
    app.client.queue(queue).await?.ok_or_else(|| unknown(queue))
}

fn unknown(queue: &str) -> Problem {
    Problem::not_found(format!("queue {queue:?} does not exist"))
}
