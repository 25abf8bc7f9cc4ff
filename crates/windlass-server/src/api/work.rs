//! The calls of HTTP workers, at `/work/v1` (docs/protocols/http.md).

use super::Shared;
use crate::{
    auth::Identity,
    extract::{Body, Name},
    problem::Problem,
    work::{Register, Report, TurnAnswer, read_reports, receipts, reports, store_reports, turn},
};
use axum::{Extension, Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// A worker that beats so often within its lease keeps it.
const BEATS: u64 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default, deserialize_with = "reports")]
    reports: Vec<Report>,
    memory_bytes: Option<u64>,
}

type Who = Extension<Identity>;

pub(crate) async fn register(
    State(app): Shared,
    Extension(identity): Who,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let said: Register = body.read()?;
    let (name, member) = app.work.register(&identity, said).await?;
    let lease = member.remote.spec().lease.as_secs();
    let answer = json!({
        "worker": name,
        "lease_s": lease,
        "heartbeat_s": (lease / BEATS).max(1),
        "protocol": PROTOCOL,
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

pub(crate) async fn take_turn(
    State(app): Shared,
    Extension(identity): Who,
    Name(worker): Name,
    body: Body,
) -> Result<Json<TurnAnswer>, Problem> {
    let member = app.work.find(&worker, &identity)?;
    let _call = member.call();
    let said = body.read()?;
    Ok(Json(turn(&app.work, &member, said, body.into_room()).await?))
}

pub(crate) async fn beat(
    State(app): Shared,
    Extension(identity): Who,
    Name(worker): Name,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let member = app.work.find(&worker, &identity)?;
    let _call = member.call();
    let Said { reports, memory_bytes } = body.read()?;
    member.uses_memory(memory_bytes);
    let reported = store_reports(&member, read_reports(reports, &member)?).await?;
    let beat = member.remote.beat().await?;
    let mut answer = json!({ "cancel": receipts(&member, &beat) });
    if beat.drain {
        answer["drain"] = json!(true);
    }
    if !reported.is_empty() {
        answer["reported"] = json!(reported);
    }
    Ok(Json(answer))
}

pub(crate) async fn end(
    State(app): Shared,
    Extension(identity): Who,
    Name(worker): Name,
) -> Result<StatusCode, Problem> {
    let member = app.work.find(&worker, &identity)?;
    let _call = member.call();
    app.work.end(&member).await?;
    Ok(StatusCode::NO_CONTENT)
}
