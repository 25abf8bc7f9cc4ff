//! The store as a whole: its schema, state, policy and what happened in it.

use super::{done, listed::event_json, read, say};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{
    Client, Error, ErrorKind, EventCursor, Events, HistoryRequest, QueueFilter, Result, RetentionRule,
    SettingsChange,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageOfEvents {
    from: Option<String>,
    #[serde(default)]
    queues: Vec<String>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    events: Vec<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    last_ms: u64,
    step_ms: Option<u64>,
    queue: Option<String>,
    kind: Option<String>,
    outcome: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rules: Vec<RetentionRule>,
}

/// What to change of the settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    retention_ms: Option<u64>,
    dead_retention_ms: Option<u64>,
    audit_retention_ms: Option<u64>,
    segment_bytes: Option<u64>,
    max_crashes: Option<u16>,
}

impl From<Change> for SettingsChange {
    fn from(said: Change) -> Self {
        let mut change = Self::new();
        change.retention = said.retention_ms.map(Duration::from_millis);
        change.dead_retention = said.dead_retention_ms.map(Duration::from_millis);
        change.audit_retention = said.audit_retention_ms.map(Duration::from_millis);
        change.segment_bytes = said.segment_bytes;
        change.max_crashes = said.max_crashes;
        change
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Available {
    queues: Vec<String>,
    #[serde(default)]
    kinds: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queues {
    name: Option<String>,
    search: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    match op {
        "events" => events(client, read(payload)?).await,
        "history" => {
            let Counts { last_ms, step_ms, queue, kind, outcome } = read(payload)?;
            let mut request = HistoryRequest::last(Duration::from_millis(last_ms));
            request.step = step_ms.map_or(request.step, Duration::from_millis);
            (request.queue, request.kind) = (queue, kind);
            request.outcome = outcome.map(|outcome| outcome.parse()).transpose()?;
            request.check()?;
            say(&client.history(&request).await?)
        }
        "set_retention" => {
            let Rules { rules } = read(payload)?;
            client.set_retention(&rules).await?;
            done()
        }
        "configure" => {
            let change: Change = read(payload)?;
            client.change_settings(&change.into()).await?;
            done()
        }
        "queues" => {
            let Queues { name, search, after, limit } = read(payload)?;
            say(&client.queues_by(&QueueFilter { name, search, after, limit }).await?)
        }
        "any_available" => {
            let Available { queues, kinds } = read(payload)?;
            say(&client.any_available(&queues, &kinds).await?)
        }
        _ => {
            let Nothing {} = read(payload)?;
            match op {
                "migrate" => {
                    let report = client.migrate().await?;
                    say(&json!({ "from": report.from, "to": report.to }))
                }
                "status" => say(&client.status().await?),
                "retention" => say(&client.retention().await?),
                "settings" => say(&client.settings().await?),
                _ => Err(Error::new(ErrorKind::Internal, format!("{op:?} is no operation"))),
            }
        }
    }
}

async fn events(client: &Client, page: PageOfEvents) -> Result<String> {
    let from = page.from.map_or_else(EventCursor::start, EventCursor::from);
    let mut events = client.events(from);
    events = page.queues.into_iter().fold(events, Events::queue);
    events = page.kinds.into_iter().fold(events, Events::kind);
    for event in page.events {
        events = events.only(event.parse()?);
    }
    if let Some(limit) = page.limit {
        events = events.page_size(limit);
    }
    let page = events.next_page().await?;
    let told: Vec<Value> = page.events.iter().map(event_json).collect();
    say(&json!({ "events": told, "next": page.next.as_str(), "more": page.more }))
}
