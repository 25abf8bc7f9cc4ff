//! What has no JSON of its own, as every program writes it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use windlass::{JobEvent, JobId, ListedSchedule};

/// A schedule with what became of its last job. Its definition is as it was declared: a `Value` would round numbers of its args.
#[derive(Serialize)]
pub struct ScheduleJson<'a> {
    name: &'a str,
    source: &'a str,
    definition: Option<&'a RawValue>,
    paused: bool,
    next_tick: Option<Timestamp>,
    due_at: Option<Timestamp>,
    last_tick: Option<Timestamp>,
    last_job: Option<JobId>,
    last_enqueued_at: Option<Timestamp>,
    last_run: Option<&'static str>,
    queued_tick: Option<Timestamp>,
    error: Option<&'a str>,
}

/// A schedule as it is listed.
pub fn schedule_json(listed: &ListedSchedule) -> ScheduleJson<'_> {
    let record = &listed.record;
    ScheduleJson {
        name: &record.name,
        source: &record.source,
        definition: serde_json::from_str(&record.definition).ok(),
        paused: record.paused,
        next_tick: record.next_tick,
        due_at: record.due_at,
        last_tick: record.last_tick,
        last_job: record.last_job,
        last_enqueued_at: record.last_enqueued_at,
        last_run: listed.last_run.map(|run| run.as_str()),
        queued_tick: record.queued_tick,
        error: record.error.as_deref(),
    }
}

/// A page of schedules.
#[derive(Serialize)]
pub struct SchedulesJson<'a> {
    schedules: Vec<ScheduleJson<'a>>,
    next: Option<&'a str>,
}

/// A page of them; `next`: the name behind which the next begins.
pub fn schedules_json<'a>(listed: &'a [ListedSchedule], next: Option<&'a str>) -> SchedulesJson<'a> {
    SchedulesJson { schedules: listed.iter().map(schedule_json).collect(), next }
}

/// What happened to a job.
pub fn event_json(event: &JobEvent) -> Value {
    json!({
        "cursor": event.cursor.as_str(), "event": event.event.as_str(), "id": event.job, "at": event.at, "queue": &*event.queue,
        "kind": &*event.kind, "attempt": event.attempt, "worker": event.worker, "reason": event.reason,
    })
}
