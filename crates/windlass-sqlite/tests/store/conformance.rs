//! The storage contract on SQLite, with a fresh file for each rule.

use async_trait::async_trait;
use std::sync::Arc;
use tempfile::TempDir;
use windlass_conformance::{Fixture, steps::DEADLINE};
use windlass_core::{JobStore, Store};
use windlass_sqlite::{SqliteOptions, SqliteStore};

/// A folder with one database file; gone with the test.
struct OneFile(TempDir);

#[async_trait]
impl Fixture for OneFile {
    async fn open(&self) -> Arc<dyn Store> {
        let path = self.0.path().join("jobs.db");
        let url = format!("sqlite:{}", path.display());
        Arc::new(SqliteStore::open(&url, options()).expect("opens"))
    }
}

/// Races may keep the file locked for long where the machine is busy.
fn options() -> SqliteOptions {
    SqliteOptions { busy_timeout: DEADLINE, ..SqliteOptions::default() }
}

async fn fixture() -> OneFile {
    let file = OneFile(TempDir::new().expect("temporary folder"));
    let url = file.0.path().join("jobs.db");
    let store = SqliteStore::open(&url.to_string_lossy(), options()).expect("opens");
    store.migrate().await.expect("migrates");
    file
}

windlass_conformance::suite!(fixture);
