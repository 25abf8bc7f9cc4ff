//! The handlers of the API, one file for what belongs together.

pub(crate) mod audit;
pub(crate) mod bulk;
pub(crate) mod jobs;
pub(crate) mod key_limits;
pub(crate) mod live;
pub(crate) mod probes;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod store;
pub(crate) mod timings;
pub(crate) mod wanted;
pub(crate) mod work;

use crate::{app::App, problem::Problem};
use axum::{Json, extract::State};
use serde_json::Value;
use std::sync::Arc;

/// What all handlers are given.
type Shared = State<Arc<App>>;

/// What most of them answer.
type Answer = Result<Json<Value>, Problem>;

/// What a page has at most, and where nothing is said.
const MOST: u32 = 200;
const PAGE: u32 = 50;

/// How many items a page is to have.
fn page_size(limit: Option<u32>) -> Result<u32, Problem> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=MOST => Ok(limit),
        other => Err(Problem::invalid(format!("limit must be 1 to {MOST}, got {other}"))),
    }
}
