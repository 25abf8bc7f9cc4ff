//! The store as a whole: its state, its past, what happens in it.

use super::{Answer, By, MOST, Shared, page_size, times};
use crate::{
    extract::{Name, Query},
    metrics::MEDIA,
    problem::Problem,
    record::{event_shown, secrets_of},
    series::Charted,
    side_by_side::side_by_side,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use windlass::{EventCursor, EventType, HistoryRequest, WorkerId};

pub(crate) async fn overview(State(app): Shared) -> Answer {
    Ok(Json(app.overview.look(&app.client, &app.counts, &app.past).await?))
}

pub(crate) async fn workers(State(app): Shared) -> Answer {
    let status = app.client.status().await?;
    Ok(Json(json!({ "items": status.workers, "more": status.more_workers })))
}

pub(crate) async fn drain(State(app): Shared, Name(worker): Name) -> Result<StatusCode, Problem> {
    let unknown = || Problem::not_found(format!("worker {worker:?} does not exist"));
    app.client.drain_worker(WorkerId(worker.parse().map_err(|_| unknown())?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    last_s: Option<u64>,
    step_s: Option<u64>,
    queue: Option<String>,
    kind: Option<String>,
    outcome: Option<String>,
    by: Option<By>,
    top: Option<u32>,
}

pub(crate) async fn history(State(app): Shared, Query(past): Query<Past>) -> Result<Json<Charted>, Problem> {
    let (last, step) = times(past.last_s, past.step_s)?;
    let mut request = HistoryRequest::last(last);
    request.step = step;
    (request.queue, request.kind) = (past.queue, past.kind);
    request.outcome = past.outcome.map(|outcome| outcome.parse()).transpose()?;
    request.check()?;
    let apart = past.by.unwrap_or_default().told_apart();
    let top = past.top.map(top_size).transpose()?;
    let counters = app.past.counters(&app.client, &request).await?;
    Ok(Json(counters.part(apart, request.outcome, top)))
}

fn top_size(top: u32) -> Result<usize, Problem> {
    match top {
        1..=MOST => Ok(top as usize),
        other => Err(Problem::invalid(format!("top must be 1 to {MOST}, got {other}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Happened {
    after: Option<String>,
    limit: Option<u32>,
    queue: Option<String>,
    kind: Option<String>,
    r#type: Option<String>,
}

pub(crate) async fn events(State(app): Shared, Query(asked): Query<Happened>) -> Answer {
    let from = asked.after.map_or_else(EventCursor::start, EventCursor::from);
    let mut events = app.client.events(from).page_size(page_size(asked.limit)?);
    if let Some(queue) = asked.queue {
        events = events.queue(queue);
    }
    if let Some(kind) = asked.kind {
        events = events.kind(kind);
    }
    if let Some(event) = asked.r#type {
        events = events.only(event.parse::<EventType>()?);
    }
    let page = events.next_page().await?;
    // A reason may quote what is hidden in its job.
    let quoting: BTreeSet<_> =
        page.events.iter().filter(|event| event.reason.is_some()).map(|event| event.job).collect();
    let (client, redaction) = (&app.client, &app.redaction());
    // Of a job no more is kept than what is hidden in it: a page of large ones does not fit in memory.
    let secrets = side_by_side(quoting, |id| async move {
        client.job(id).await.map(|job| Some((id, secrets_of(&job?, redaction))))
    });
    let secrets: HashMap<_, _> = secrets.await?.into_iter().flatten().collect();
    let shown: Vec<_> = page.events.iter().map(|event| event_shown(event, secrets.get(&event.job))).collect();
    Ok(Json(json!({ "events": shown, "next": page.next.as_str(), "more": page.more })))
}

pub(crate) async fn openapi(State(app): Shared) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}

pub(crate) async fn metrics(State(app): Shared) -> Result<Response, Problem> {
    let text = app.metrics.text(&app.client, &app.counts, app.live.readers()).await?;
    Ok(([(header::CONTENT_TYPE, MEDIA)], text).into_response())
}
