use super::{
    done,
    listed::{schedule_json, schedules_json},
    read, say,
};
use crate::ScheduleSpec;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use tokio::task::spawn_blocking;
use windlass::{
    Client, Error, ErrorKind, Result, Schedule, ScheduleFile, ScheduleFilter, SchedulePut, SchedulesPut,
    preview,
};

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
struct PutFile {
    file: PathBuf,
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
        "put_schedules" => {
            let Put { schedules, source, prune } = read(payload)?;
            let declared = schedules.into_iter().map(ScheduleSpec::schedule).collect::<Result<_>>()?;
            put(client, &source.unwrap_or_default(), declared, prune).await
        }
        "put_schedule_file" => put_file(client, read(payload)?).await,
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

async fn put_file(client: &Client, PutFile { file, prune }: PutFile) -> Result<String> {
    // Not in a thread that keeps leases: a large one takes a second.
    let reading = spawn_blocking(move || (ScheduleFile::read(&file), file));
    let (read, file) = reading.await.map_err(|cause| {
        Error::new(ErrorKind::Internal, "the file of schedules was not read").with_source(cause)
    })?;
    let ScheduleFile { source, schedules, .. } = read?;
    if prune && source.is_empty() {
        let file = file.display();
        let message =
            format!("{file}: prune needs to know whose schedules it has; write source = \"NAME\" at its top");
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    put(client, &source, schedules, prune).await
}

async fn put(client: &Client, source: &str, declared: Vec<Schedule>, prune: bool) -> Result<String> {
    let names: Vec<_> = declared.iter().map(|schedule| schedule.name().to_owned()).collect();
    let SchedulesPut { puts, pruned } = match prune {
        true => client.schedules().put_all_of(source, declared).await?,
        false => {
            let named = declared.into_iter().map(|schedule| schedule.with_source(source));
            client.schedules().put(named).await?
        }
    };
    let word = |put: &SchedulePut| match put {
        SchedulePut::Created => "created",
        SchedulePut::Changed => "changed",
        _ => "unchanged",
    };
    let replies: Vec<_> = puts.iter().map(word).collect();
    say(&json!({ "names": names, "replies": replies, "removed": pruned }))
}

async fn list(client: &Client, list: List) -> Result<String> {
    let limit = list.limit.unwrap_or(PAGE);
    let filter = ScheduleFilter { name: None, source: list.source, after: list.after, limit };
    let listed = client.schedules().list(&filter).await?;
    let next = listed.last().filter(|_| listed.len() >= limit as usize).map(|last| last.record.name.as_str());
    say(&schedules_json(&listed, next))
}
