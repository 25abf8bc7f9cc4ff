//! Every call of a client as an operation by name, JSON in and JSON out: one place for all bindings. The operations with what they take and
//! give are listed at [`Client::run`](crate::Client::run).

mod audit;
mod enqueue;
mod jobs;
mod limits;
mod listed;
mod schedules;
mod select;
mod store;
mod timings;

pub use enqueue::check_jobs;
pub(crate) use enqueue::sql_json;
pub use listed::{ScheduleJson, SchedulesJson, event_json, schedule_json, schedules_json};

use crate::Failure;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::{Client, Error, ErrorKind};

/// Does one operation.
///
/// # Errors
/// An unknown operation, a payload that does not fit, and the client's.
pub(crate) async fn call(client: &Client, op: &str, payload: &str) -> Result<String, Failure> {
    let said = match op {
        "enqueue" | "enqueue_unique" | "enqueue_sql" => enqueue::call(client, op, payload).await,
        "job" | "jobs" | "wait" | "args" | "result" | "checkpoint" => jobs::call(client, op, payload).await,
        "audit" | "append_audit" => audit::call(client, op, payload).await,
        "acting_as" => return audit::acting(client, payload).await,
        "cancel" | "retry" | "edit" | "delete" => select::call(client, op, payload).await,
        "pause" | "resume" | "drain_worker" | "limit" | "limit_keys" | "limit_key" | "unlimit_key"
        | "unlimit_keys" | "key_limits" => limits::call(client, op, payload).await,
        "put_schedules" | "put_schedule_file" | "schedules" | "schedule" | "remove_schedule"
        | "pause_schedule" | "resume_schedule" | "run_schedule" | "preview_schedule" => {
            schedules::call(client, op, payload).await
        }
        "timings" | "failures" | "mark" | "marks" => timings::call(client, op, payload).await,
        // To test what becomes of that.
        #[cfg(debug_assertions)]
        "panic_for_test" => panic!("asked to panic"),
        _ => store::call(client, op, payload).await,
    };
    said.map_err(Failure::from)
}

/// Reads a payload.
fn read<'a, T: Deserialize<'a>>(payload: &'a str) -> windlass::Result<T> {
    serde_json::from_str(payload)
        .map_err(|cause| Error::new(ErrorKind::InvalidOption, crate::place::told(payload, &cause)))
}

/// Writes an answer.
fn say(answer: &impl Serialize) -> windlass::Result<String> {
    serde_json::to_string(answer).map_err(|cause| {
        Error::new(ErrorKind::Internal, "an answer cannot be written as JSON").with_source(cause)
    })
}

/// The answer of what has nothing to tell.
fn done() -> windlass::Result<String> {
    say(&json!({}))
}
