use crate::{
    cli::Globals,
    failure::{Failure, Outcome},
    measure::WalGauge,
};
use tempfile::TempDir;
use windlass::{Client, QueueStats, StoreKind, redact_url};

/// Where a trial runs: in the store that the user named, or in a temporary file that goes with it.
pub(crate) struct Place {
    pub(crate) url: String,
    folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn find(globals: &Globals) -> Outcome<Self> {
        if let Some(url) = &globals.store {
            return Ok(Self { url: url.clone(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("windlass-").tempdir().map_err(|error| {
            Failure::failed(
                "storage_full",
                format!("cannot make a temporary folder: {error}; name a store with --store"),
            )
        })?;
        Ok(Self { url: format!("sqlite:{}", folder.path().join("trial.db").display()), folder: Some(folder) })
    }

    /// Whether nothing of it will stay.
    pub(crate) fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }

    /// What to call it in a report.
    pub(crate) fn name(&self) -> String {
        if self.is_temporary() { "temporary file".to_owned() } else { redact_url(&self.url) }
    }

    /// What an acknowledged write has survived.
    pub(crate) async fn durability(&self, wal: &WalGauge) -> String {
        if StoreKind::of(&self.url).is_ok_and(|kind| kind == StoreKind::Sqlite) {
            let relaxed = self.url.to_ascii_lowercase().contains("synchronous=normal");
            return if relaxed { "synchronous=normal" } else { "synchronous=full" }.to_owned();
        }
        let setting = wal.synchronous_commit().await.unwrap_or_else(|| "unknown".to_owned());
        format!("synchronous_commit={setting}")
    }
}

/// The counts of a queue; zero when it does not exist yet.
pub(crate) async fn counts(client: &Client, queue: &str) -> Outcome<QueueStats> {
    let queues = client.queues().await?;
    Ok(queues.into_iter().find(|stats| stats.name == queue).unwrap_or_default())
}
