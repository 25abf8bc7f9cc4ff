use super::{Answer, Shared, page_size};
use crate::{extract::Query, problem::Problem};
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    before: Option<String>,
    limit: Option<u32>,
}

/// What this process was asked to change, newest first. The log has all of it, and that of other processes.
pub(crate) async fn list(State(app): Shared, Query(page): Query<Page>) -> Answer {
    let before = page.before.as_deref().map_or(Ok(u64::MAX), str::parse);
    let before = before.map_err(|_| Problem::invalid("before must be the id of an entry"))?;
    let (items, more) = app.audit.page(before, page_size(page.limit)? as usize);
    let next = items.last().filter(|_| more).map(|entry| entry.id.clone());
    Ok(Json(json!({ "items": items, "next": next })))
}
