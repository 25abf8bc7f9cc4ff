use super::{Answer, Shared, page_size};
use crate::{
    app::App,
    extract::{Body, Name, Query},
    problem::Problem,
    record::{listed_json, unwritable},
    redact::Verbatim,
};
use axum::{Json, extract::State, http::StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::{ScheduleFilter, preview};
use windlass_bridge::ScheduleSpec;

/// How many ticks are shown ahead.
const TICKS: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    source: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    items: Vec<Verbatim>,
    next: Option<String>,
}

pub(crate) async fn list(State(app): Shared, Query(list): Query<List>) -> Result<Json<Listed>, Problem> {
    let limit = page_size(list.limit)?;
    let filter = ScheduleFilter { name: None, source: list.source, after: list.after, limit };
    let listed = app.client.schedules().list(&filter).await?;
    let next = listed.last().filter(|_| listed.len() >= limit as usize).map(|last| last.record.name.clone());
    let items = listed.iter().map(|listed| listed_json(listed, &app.redaction()));
    let items = items.collect::<Result<_, _>>()?;
    Ok(Json(Listed { items, next }))
}

pub(crate) async fn show(State(app): Shared, Name(name): Name) -> Result<Json<Verbatim>, Problem> {
    one(&app, &name).await
}

async fn one(app: &App, name: &str) -> Result<Json<Verbatim>, Problem> {
    let listed = app.client.schedules().get(name).await?;
    let listed = listed.ok_or_else(|| Problem::not_found(format!("schedule {name:?} does not exist")))?;
    let mut shown = listed_json(&listed, &app.redaction())?;
    // One that makes no sense has its error shown, and no tick.
    let ticks = listed.record.schedule().and_then(|schedule| preview(&schedule, Timestamp::now(), TICKS));
    let ticks: Vec<_> = ticks.unwrap_or_default().iter().map(|tick| tick.timestamp()).collect();
    shown.set("next", Verbatim::of(&ticks).ok_or_else(unwritable)?);
    Ok(Json(shown))
}

pub(crate) async fn run(State(app): Shared, Name(name): Name) -> Answer {
    let id = app.client.schedules().run(&name).await?;
    Ok(Json(json!({ "id": id.to_string() })))
}

pub(crate) async fn pause(State(app): Shared, Name(name): Name) -> Result<StatusCode, Problem> {
    app.client.schedules().pause(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resume(State(app): Shared, Name(name): Name) -> Result<StatusCode, Problem> {
    app.client.schedules().resume(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn put(State(app): Shared, Name(name): Name, body: Body) -> Result<Json<Verbatim>, Problem> {
    let schedule = body.read::<ScheduleSpec<'_>>()?.named(&name)?.schedule()?;
    app.client.schedules().put([schedule]).await?;
    one(&app, &name).await
}

pub(crate) async fn remove(State(app): Shared, Name(name): Name) -> Result<StatusCode, Problem> {
    app.client.schedules().remove(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
