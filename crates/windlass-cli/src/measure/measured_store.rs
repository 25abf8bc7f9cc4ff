use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
};
use std::{fs, io, thread, time::Duration};
use tempfile::TempDir;
use windlass::{Client, QueueStats, StoreKind, redact_url};

/// How often the removal of the temporary folder is tried, and how long after one another.
const MOST_REMOVALS: u32 = 100;
const REMOVE_AGAIN: Duration = Duration::from_millis(20);

/// The store that is measured: the one that the user named, or a temporary file, which is removed with this.
pub struct MeasuredStore {
    /// Its URL.
    pub url: String,
    folder: Option<TempDir>,
}

impl MeasuredStore {
    /// The store that `globals` ask for.
    pub fn open(globals: &Globals) -> Outcome<Self> {
        if let Some(url) = &globals.store {
            return Ok(Self { url: url.clone(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("windlass-").tempdir().map_err(|error| {
            let message = format!("cannot make a temporary folder: {error}; name a store with --store");
            Failure::failed("storage_full", message)
        })?;
        let url = format!("sqlite:{}", folder.path().join("measured.db").display());
        Ok(Self { url, folder: Some(folder) })
    }

    /// Whether it is a temporary file.
    pub fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }

    /// What a report calls it: no passwords.
    pub fn name(&self) -> String {
        if self.is_temporary() { "temporary file".to_owned() } else { redact_url(&self.url) }
    }

    /// What an acknowledged write survives. `None` for PostgreSQL, where the server decides that.
    pub fn durability(&self) -> Option<&'static str> {
        let is_sqlite = StoreKind::of(&self.url).is_ok_and(|kind| kind == StoreKind::Sqlite);
        let relaxed = self.url.to_ascii_lowercase().contains("synchronous=normal");
        is_sqlite.then_some(if relaxed { "synchronous=normal" } else { "synchronous=full" })
    }
}

impl Drop for MeasuredStore {
    /// Removes the temporary file. Threads of a store whose measurement was interrupted may write for a moment yet: a
    /// file that they make meanwhile keeps the folder from being removed.
    fn drop(&mut self) {
        let Some(folder) = self.folder.take().map(TempDir::keep) else { return };
        for _ in 0..MOST_REMOVALS {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(REMOVE_AGAIN),
                _ => return,
            }
        }
        tracing::warn!(?folder, "the temporary folder cannot be removed");
    }
}

/// The counts of a queue; zero when it does not exist yet.
pub async fn counts(client: &Client, queue: &str) -> Outcome<QueueStats> {
    Ok(client.queue(queue).await?.unwrap_or_default())
}
