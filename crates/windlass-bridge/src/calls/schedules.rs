use super::{done, listed::schedule_json, read, say};
use crate::ScheduleSpec;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use windlass::{Client, Result, ScheduleFilter, SchedulePut, SchedulesPut, preview};

/// How many schedules a page has, and how many ticks a preview, where nothing is said.
const PAGE: u32 = 100;
const TICKS: u16 = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put<'a> {
    #[serde(borrow)]
    schedules: Vec<ScheduleSpec<'a>>,
    source: Option<String>,
    #[serde(default)]
    prune: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    source: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Preview<'a> {
    #[serde(borrow)]
    schedule: ScheduleSpec<'a>,
    after: Option<Timestamp>,
    count: Option<u16>,
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    match op {
        "put_schedules" => put(client, read(payload)?).await,
        "schedules" => list(client, read(payload)?).await,
        "preview_schedule" => {
            let Preview { schedule, after, count } = read(payload)?;
            let after = after.unwrap_or_else(Timestamp::now);
            let ticks = preview(&schedule.schedule()?, after, count.unwrap_or(TICKS).into())?;
            say(&ticks.iter().map(|tick| tick.timestamp().to_string()).collect::<Vec<_>>())
        }
        _ => {
            let Name { name } = read(payload)?;
            let schedules = client.schedules();
            match op {
                "schedule" => return say(&schedules.get(&name).await?.as_ref().map(schedule_json)),
                "run_schedule" => return say(&json!({ "id": schedules.run(&name).await? })),
                "remove_schedule" => schedules.remove(&name).await?,
                "pause_schedule" => schedules.pause(&name).await?,
                _ => schedules.resume(&name).await?,
            }
            done()
        }
    }
}

async fn put(client: &Client, put: Put<'_>) -> Result<String> {
    let source = put.source.unwrap_or_default();
    let declared: Vec<_> = put.schedules.into_iter().map(ScheduleSpec::schedule).collect::<Result<_>>()?;
    let SchedulesPut { puts, pruned } = match put.prune {
        true => client.schedules().put_all_of(&source, declared).await?,
        false => {
            let named = declared.into_iter().map(|schedule| schedule.with_source(&source));
            client.schedules().put(named).await?
        }
    };
    let word = |put: &SchedulePut| match put {
        SchedulePut::Created => "created",
        SchedulePut::Changed => "changed",
        _ => "unchanged",
    };
    say(&json!({ "replies": puts.iter().map(word).collect::<Vec<_>>(), "removed": pruned }))
}

async fn list(client: &Client, list: List) -> Result<String> {
    let limit = list.limit.unwrap_or(PAGE);
    let filter = ScheduleFilter { name: None, source: list.source, after: list.after, limit };
    let listed = client.schedules().list(&filter).await?;
    let next = listed.last().filter(|_| listed.len() >= limit as usize).map(|last| last.record.name.as_str());
    say(&json!({ "schedules": listed.iter().map(schedule_json).collect::<Vec<_>>(), "next": next }))
}
