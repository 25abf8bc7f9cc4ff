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
use serde::Deserialize;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// What all handlers are given.
type Shared = State<Arc<App>>;

/// What most of them answer.
type Answer = Result<Json<Value>, Problem>;

/// What a page has at most, and where nothing is said.
const MOST: u32 = 200;
const PAGE: u32 = 50;

/// The most points in time that one answer has.
const MOST_POINTS: u64 = 1_500;

/// How far back, an hour where nothing is said, and how much time one point is of, a minute.
fn times(last_s: Option<u64>, step_s: Option<u64>) -> Result<(Duration, Duration), Problem> {
    let (last, step) = (last_s.unwrap_or(3_600), step_s.unwrap_or(60));
    if last / step.max(1) > MOST_POINTS {
        let detail = format!(
            "{last} s in steps of {step} s are more than {MOST_POINTS} points; ask for a longer step_s"
        );
        return Err(Problem::invalid(detail));
    }
    Ok((Duration::from_secs(last), Duration::from_secs(step)))
}

/// What figures of the past tell apart.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    None,
    Queue,
    Kind,
    #[default]
    QueueAndKind,
}

impl By {
    /// Whether queues are, and kinds.
    fn told_apart(self) -> (bool, bool) {
        (matches!(self, Self::Queue | Self::QueueAndKind), matches!(self, Self::Kind | Self::QueueAndKind))
    }
}

/// Which page of a list is asked for, and of which names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    search: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

/// How many items a page is to have.
fn page_size(limit: Option<u32>) -> Result<u32, Problem> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=MOST => Ok(limit),
        other => Err(Problem::invalid(format!("limit must be 1 to {MOST}, got {other}"))),
    }
}
