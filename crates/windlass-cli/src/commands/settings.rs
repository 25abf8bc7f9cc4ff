use crate::{duration, failure::Outcome, globals::Globals, open};
use indicatif::BinaryBytes;
use serde_json::json;
use std::time::Duration;
use windlass::{Settings, SettingsChange};

/// The options of `settings`. Without any it shows what is set.
#[derive(clap::Args)]
pub(crate) struct Change {
    /// How long completed jobs stay readable, such as 1day or 36h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    retention: Option<Duration>,
    /// How long cancelled and discarded jobs stay readable
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    dead_retention: Option<Duration>,
    /// The size at which the log moves on to its next segment of four (PostgreSQL); less than 64 MiB (67108864) makes sense in tests only
    #[arg(long, value_name = "BYTES")]
    segment_bytes: Option<u64>,
    /// A job that so many dying workers held is discarded, at least 3
    #[arg(long, value_name = "COUNT")]
    max_crashes: Option<u16>,
    /// How long entries of the audit log are kept, the newest million of them at most
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    audit_retention: Option<Duration>,
}

impl Change {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::existing(globals.url()).await?;
        let (mut settings, change) = (client.settings().await?, self.change());
        if change.of(settings) != settings {
            let done = client.change_settings(&change).await;
            globals.did(&client, "settings.put", "settings", done).await?;
            settings = client.settings().await?;
        }
        client.close().await;
        globals.print(&json!(settings), || text(&settings))
    }

    /// What is named: of the rest somebody else may change something.
    fn change(&self) -> SettingsChange {
        let mut change = SettingsChange::new();
        change.retention = self.retention;
        change.dead_retention = self.dead_retention;
        change.segment_bytes = self.segment_bytes;
        change.max_crashes = self.max_crashes;
        change.audit_retention = self.audit_retention;
        change
    }
}

fn text(settings: &Settings) -> String {
    let Settings { retention, dead_retention, segment_bytes, max_crashes, audit_retention, .. } = *settings;
    let lines = [
        ("retention", time(retention), "of completed jobs"),
        ("dead_retention", time(dead_retention), "of cancelled and discarded jobs"),
        ("segment_bytes", BinaryBytes(segment_bytes).to_string(), "the log's segments (PostgreSQL)"),
        ("max_crashes", max_crashes.to_string(), "dying workers that a job may have been held by"),
        ("audit_retention", time(audit_retention), "of the audit log"),
    ];
    let line = |(name, value, what): (&str, String, &str)| format!("{name:<15} {value:<12} {what}\n");
    lines.into_iter().map(line).collect()
}

/// A time in days where it is some, however many.
fn time(time: Duration) -> String {
    match (time.as_secs() / 86_400, time.as_nanos() % 86_400_000_000_000) {
        (1, 0) => "1day".to_owned(),
        (days @ 2.., 0) => format!("{days}days"),
        _ => humantime::format_duration(time).to_string(),
    }
}
