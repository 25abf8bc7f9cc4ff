use crate::{
    failure::Outcome,
    globals::Globals,
    table::table,
    text::{escape, shorten},
};
use jiff::Timestamp;
use std::fmt::Write;
use windlass::{Client, ListedSchedule, ScheduleFilter};
use windlass_bridge::schedules_json;

/// How much of an expression a list shows.
const CRON_SHOWN: usize = 30;

/// Which schedules to list.
#[derive(clap::Args)]
pub(crate) struct List {
    /// Only those of this source
    #[arg(long)]
    source: Option<String>,
    /// Only those behind this name
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// The most schedules to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(ScheduleFilter::MOST)))]
    limit: u32,
}

impl List {
    pub(crate) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let limit = self.limit;
        let filter = ScheduleFilter { name: None, source: self.source, after: self.after, limit };
        let listed = client.schedules().list(&filter).await?;
        let next = listed.last().filter(|_| listed.len() == limit as usize);
        let next = next.map(|last| last.record.name.as_str());
        globals.print(&schedules_json(&listed, next), || text(&listed, next))
    }
}

fn text(listed: &[ListedSchedule], next: Option<&str>) -> String {
    if listed.is_empty() {
        return "no schedules\n".to_owned();
    }
    let headers = ["NAME", "CRON", "ZONE", "STATE", "NEXT", "LAST", ">JOB", "OUTCOME"];
    let mut text = table(&headers, &listed.iter().map(row).collect::<Vec<_>>());
    for listed in listed {
        if let Some(error) = &listed.record.error {
            let _ = writeln!(text, "\nnever fires: {}", escape(error));
        }
    }
    if let Some(next) = next {
        let _ = writeln!(text, "\nthere may be more; continue with --after {}", escape(next));
    }
    text
}

fn row(listed: &ListedSchedule) -> Vec<String> {
    let record = &listed.record;
    let schedule = record.schedule().ok();
    let dash = || "-".to_owned();
    let at = |at: Option<Timestamp>| at.map_or_else(dash, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let state = match record {
        record if record.paused => "paused",
        record if record.error.is_some() => "wrong",
        record if record.due_at.is_none() => "ended",
        record if record.queued_tick.is_some() => "queued",
        record if record.due_at.is_some_and(|due| due <= record.decided) => "new",
        _ => "on",
    };
    vec![
        escape(&record.name),
        schedule.as_ref().map_or_else(dash, |schedule| shorten(schedule.cron(), CRON_SHOWN)),
        schedule.as_ref().map_or_else(dash, |schedule| shorten(schedule.zone(), CRON_SHOWN)),
        state.to_owned(),
        at(record.next_tick),
        at(record.last_tick),
        record.last_job.map_or_else(dash, |job| job.to_string()),
        listed.last_run.map_or_else(dash, |run| run.as_str().to_owned()),
    ]
}
