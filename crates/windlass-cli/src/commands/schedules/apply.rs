use super::set::word;
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open,
    text::escape,
};
use serde_json::{Value, json};
use std::{collections::HashSet, fmt::Write};
use windlass::{
    AuditEntry, Client, Limits, Schedule, ScheduleFile, ScheduleFilter, SchedulePut, SchedulesPut,
};

/// Which file, and how.
#[derive(clap::Args)]
pub(crate) struct Apply {
    /// A TOML file with a [[schedule]] for each: name, cron, kind, and as they are needed zone, args, queue, priority,
    /// max_attempts, starts_at, ends_at, jitter, overlap, missed, key, meta, tags, tracked, timeout, backoff, cost, expiry
    file: String,
    /// Removes the schedules of the file's source that are not in it any more
    #[arg(long)]
    prune: bool,
    /// Says what would be done, and does nothing
    #[arg(long)]
    dry_run: bool,
}

impl Apply {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let ScheduleFile { source, schedules, .. } = ScheduleFile::read(&self.file)?;
        if self.prune && source.is_empty() {
            let message = format!(
                "--prune needs to know whose schedules {:?} has; write source = \"NAME\" at its top",
                self.file
            );
            return Err(Failure::usage("usage", message));
        }
        // Of a dry run no store says so.
        Limits::default().check_schedules(&schedules)?;
        let client = match self.dry_run {
            true => open::existing(globals.url()).await?,
            false => open::create(globals.url()).await?,
        };
        let names: Vec<String> = schedules.iter().map(|schedule| schedule.name().to_owned()).collect();
        let put = match (self.dry_run, self.prune) {
            (true, prune) => would(&client, &schedules, prune.then_some(&*source)).await?,
            (false, true) => client.schedules().put_all_of(&source, schedules).await?,
            (false, false) => client.schedules().put(schedules).await?,
        };
        if !self.dry_run {
            client.append_audit_or_warn(&entries(globals, &names, &put)).await;
        }
        client.close().await;
        let told: Vec<_> = names.iter().zip(&put.puts).map(|(name, put)| (name, word(*put))).collect();
        let told: Vec<_> = told.into_iter().chain(put.pruned.iter().map(|name| (name, "removed"))).collect();
        let answer: Vec<_> =
            told.iter().map(|(name, reply)| json!({ "schedule": name, "reply": reply })).collect();
        globals.print(&json!({ "dry_run": self.dry_run, "schedules": answer }), || {
            told.iter().fold(String::new(), |mut text, (name, reply)| {
                let would = if self.dry_run { "would be " } else { "" };
                let _ = writeln!(text, "{}: {would}{reply}", escape(name));
                text
            })
        })
    }
}

/// What was changed, for the audit log.
fn entries(globals: &Globals, names: &[String], put: &SchedulesPut) -> Vec<AuditEntry> {
    let changed = names.iter().zip(&put.puts).filter(|(_, put)| **put != SchedulePut::Unchanged);
    let changed = changed.map(|(name, _)| globals.entry("schedules.put", name));
    changed.chain(put.pruned.iter().map(|name| globals.entry("schedules.remove", name))).collect()
}

/// What applying would do.
async fn would(client: &Client, schedules: &[Schedule], prune: Option<&str>) -> Outcome<SchedulesPut> {
    let mut would = SchedulesPut::default();
    for schedule in schedules {
        let put = match client.schedules().get(schedule.name()).await? {
            None => SchedulePut::Created,
            Some(there) => {
                let read = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
                let same = read(&there.record.definition) == read(&schedule.to_json());
                match same && there.record.source == schedule.source() {
                    true => SchedulePut::Unchanged,
                    false => SchedulePut::Changed,
                }
            }
        };
        would.puts.push(put);
    }
    let Some(source) = prune else { return Ok(would) };
    let declared: HashSet<_> = schedules.iter().map(Schedule::name).collect();
    let mut filter =
        ScheduleFilter { source: Some(source.to_owned()), limit: ScheduleFilter::MOST, ..Default::default() };
    loop {
        let page = client.store().schedules(&filter).await?;
        let gone = page.iter().filter(|record| !declared.contains(&*record.name));
        would.pruned.extend(gone.map(|record| record.name.clone()));
        match page.last() {
            Some(last) => filter.after = Some(last.name.clone()),
            None => return Ok(would),
        }
    }
}
