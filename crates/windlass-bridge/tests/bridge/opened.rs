//! A store of one test.

use tempfile::TempDir;
use windlass_bridge::{Client, Engine};

/// A client of a new file, its URL, and the folder that the file is in.
pub(crate) fn opened() -> (Client, String, TempDir) {
    let dir = TempDir::new().unwrap();
    let url = format!("sqlite:{}/jobs.db?synchronous=normal", dir.path().display());
    (Client::open(&Engine::of_process().unwrap(), &url).unwrap(), url, dir)
}
