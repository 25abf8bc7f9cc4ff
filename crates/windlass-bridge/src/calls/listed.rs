//! What has no JSON of its own, as every program writes it.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{JobEvent, ListedSchedule};

/// A schedule with what became of its last job.
pub fn schedule_json(listed: &ListedSchedule) -> Value {
    let record = &listed.record;
    let at = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "name": record.name,
        "source": record.source,
        "definition": serde_json::from_str::<Value>(&record.definition).unwrap_or(Value::Null),
        "paused": record.paused,
        "next_tick": at(record.next_tick),
        "due_at": at(record.due_at),
        "last_tick": at(record.last_tick),
        "last_job": record.last_job,
        "last_enqueued_at": at(record.last_enqueued_at),
        "last_run": listed.last_run.map(|run| run.as_str()),
        "queued_tick": at(record.queued_tick),
        "error": record.error,
    })
}

/// What happened to a job.
pub fn event_json(event: &JobEvent) -> Value {
    json!({
        "cursor": event.cursor.as_str(), "event": event.event.as_str(), "id": event.job, "at": event.at, "queue": &*event.queue,
        "kind": &*event.kind, "attempt": event.attempt, "worker": event.worker, "reason": event.reason,
    })
}
