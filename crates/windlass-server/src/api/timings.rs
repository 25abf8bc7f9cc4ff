//! How long jobs wait and run, why attempts fail, and what happened beside them.

use super::{By, Shared, page_size, times};
use crate::{
    app::App,
    auth::Identity,
    extract::{Body, Query},
    problem::Problem,
    record::secrets_of,
    side_by_side::side_by_side,
};
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{AuditEntry, FailureGroup, TimingRequest, fingerprint, telling_line};

/// How much of a sample is shown, in characters.
const LONGEST: usize = 200;
/// Under this name marks are kept.
const MARKS: &str = "marks";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    last_s: Option<u64>,
    step_s: Option<u64>,
    queue: Option<String>,
    kind: Option<String>,
    by: Option<By>,
}

pub(crate) async fn timings(State(app): Shared, Query(past): Query<Past>) -> Result<Response, Problem> {
    let (last, step) = times(past.last_s, past.step_s)?;
    let mut request = TimingRequest::last(last);
    request.step = step;
    (request.queue, request.kind) = (past.queue, past.kind);
    let (queues, kinds) = past.by.unwrap_or_default().told_apart();
    let look = async { Ok(app.client.timings(&request).await?.told_apart(queues, kinds)) };
    app.past.answer(format!("timings {queues} {kinds} {request:?}"), look).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failed {
    last_s: Option<u64>,
    queue: Option<String>,
    kind: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn failures(State(app): Shared, Query(failed): Query<Failed>) -> Result<Response, Problem> {
    let mut request = TimingRequest::last(Duration::from_secs(failed.last_s.unwrap_or(3_600)));
    (request.queue, request.kind) = (failed.queue, failed.kind);
    let limit = page_size(failed.limit)? as usize;
    let app = &app;
    let look = async {
        let groups = app.client.failures(&request).await?;
        let total = groups.len();
        let items = side_by_side(groups.into_iter().take(limit), |group| shown(app, group)).await?;
        Ok(json!({ "items": items, "total": total }))
    };
    // What is hidden may change while the server runs: an answer of before is none then.
    app.past.answer(format!("failures {limit} {request:?} {:?}", app.redaction()), look).await
}

/// The sample is read from its job, whole: what is hidden in it could not be told from the end of one that was cut. Of a job that is gone nobody knows
/// what is hidden.
async fn shown(app: &App, group: FailureGroup) -> Result<Value, Problem> {
    let mut shown = json!(group);
    shown["last_job"] = group.last_job.to_string().into();
    shown["sample"] = Value::Null;
    let Some(job) = app.client.job(group.last_job).await? else { return Ok(shown) };
    // What a handler discards outright is the reason of its job, and no error of an attempt.
    let mut texts = job.reason.iter().chain(job.errors.iter().rev().map(|error| &error.error));
    if let Some(error) = texts.find(|error| fingerprint(&job.kind, error) == group.fingerprint) {
        let whole = secrets_of(&job, &app.redaction()).scrubbed(error);
        let line = telling_line(&whole);
        shown["sample"] = line.chars().take(LONGEST).collect::<String>().into();
    }
    Ok(shown)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marks {
    last_s: Option<u64>,
}

pub(crate) async fn marks(State(app): Shared, Query(marks): Query<Marks>) -> Result<Response, Problem> {
    let last = Duration::from_secs(marks.last_s.unwrap_or(3_600));
    let look = async {
        let marks = app.client.marks(last).await?;
        let items: Vec<_> = marks.iter().map(|mark| json!({ "at": mark.at, "label": mark.label })).collect();
        Ok(json!({ "items": items }))
    };
    app.past.answer(format!("{MARKS} {last:?}"), look).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    label: String,
}

pub(crate) async fn mark(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    body: Body,
) -> Result<StatusCode, Problem> {
    let mark: Mark = body.read()?;
    let mut entry = AuditEntry::new(identity.actor(), "mark", mark.label).with_via(identity.via().as_str());
    entry.role = Some(identity.role().as_str().to_owned());
    app.client.mark_as(entry).await?;
    app.past.forget(MARKS);
    Ok(StatusCode::NO_CONTENT)
}
