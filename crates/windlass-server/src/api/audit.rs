use super::{Answer, Shared, page_size};
use crate::{extract::Query, problem::Problem};
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::json;
use windlass::AuditFilter;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    actor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    since: Option<String>,
    before: Option<String>,
    limit: Option<u32>,
}

/// A page of the store's audit log, newest first: what all its servers were asked to change, and what the command line and programs noted.
pub(crate) async fn list(State(app): Shared, Query(page): Query<Page>) -> Answer {
    let Page { actor, action, target, since, before, limit } = page;
    let before = before.as_deref().map(str::parse).transpose();
    let before = before.map_err(|_| Problem::invalid("before must be the id of an entry"))?;
    let since = since.as_deref().map(str::parse).transpose();
    let since = since.map_err(|_| Problem::invalid("since must be a time such as 2031-01-31T08:00:00Z"))?;
    let limit = page_size(limit)?;
    let page = app.client.audit(&AuditFilter { actor, action, target, since, before, limit }).await?;
    Ok(Json(json!({ "items": page.entries, "next": page.next })))
}
