//! Encrypted jobs, over SQLite and over the store in memory.

mod checkpoints;
mod handlers;
mod keys;
mod secrets;
mod swapped;

use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use windlass::{Client, Job, JobId, JobRecord, JobState, Keyring};
use windlass_memory::MemoryStore;

/// What must be seen nowhere but in handlers.
const SECRET: &str = "hunter2-of-ada";

#[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "login", encrypted)]
struct Login {
    password: String,
}

fn login() -> Login {
    Login { password: SECRET.into() }
}

fn keyring() -> Keyring {
    Keyring::new("k1", [1; 32]).unwrap()
}

/// A client without keys of each store.
async fn clients() -> Vec<(Client, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = Client::connect(&format!("sqlite:{}", dir.path().join("jobs.db").display())).await.unwrap();
    sqlite.migrate().await.unwrap();
    vec![(memory(), None), (sqlite, Some(dir))]
}

fn memory() -> Client {
    Client::from_store(Arc::new(MemoryStore::new()))
}

/// Waits until a job is as wanted.
async fn until(client: &Client, id: JobId, wanted: impl Fn(&JobRecord) -> bool) -> JobRecord {
    let wait = async {
        loop {
            match client.job(id).await.unwrap() {
                Some(job) if wanted(&job) => return job,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    match waited {
        Ok(job) => job,
        Err(_) => panic!("{:?}", client.job(id).await),
    }
}

async fn until_state(client: &Client, id: JobId, state: JobState) -> JobRecord {
    until(client, id, |job| job.state == state).await
}

/// That a job as everybody sees it shows nothing.
fn check_sealed(job: &JobRecord, key: &str) {
    assert_eq!(windlass::Envelope::describe(&job.args).unwrap(), format!("[encrypted, key {key}]"));
    let seen = format!("{job:?} {}", serde_json::to_string(job).unwrap());
    assert!(!seen.contains(SECRET), "{seen}");
}
