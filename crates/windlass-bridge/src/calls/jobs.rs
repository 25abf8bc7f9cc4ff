use super::{read, say};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use windlass::{Args, Client, JobFilter, JobId, JobState, PageToken, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    id: JobId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    id: JobId,
    timeout_ms: u64,
}

/// Which jobs, and a page of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    state: Option<JobState>,
    queue: Option<String>,
    kind: Option<String>,
    tag: Option<String>,
    error: Option<String>,
    args: Option<Args>,
    after: Option<PageToken>,
    limit: Option<u32>,
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    if op == "jobs" {
        let Page { state, queue, kind, tag, error, args, after, limit } = read(payload)?;
        let limit = limit.unwrap_or(JobFilter::default().limit);
        return say(&client.jobs(&JobFilter { state, queue, kind, tag, error, args, after, limit }).await?);
    }
    if op == "wait" {
        let Wait { id, timeout_ms } = read(payload)?;
        return say(&client.wait(id, Duration::from_millis(timeout_ms)).await?);
    }
    let One { id } = read(payload)?;
    match op {
        "args" => say(&client.args::<Box<RawValue>>(id).await?),
        "result" => say(&client.result::<Box<RawValue>>(id).await?),
        "checkpoint" => say(&client.checkpoint::<Box<RawValue>>(id).await?),
        _ => say(&client.job(id).await?),
    }
}
