//! What is sent to a worker process, and what it answers: JSON, a line each.

use crate::worker_settings::WorkerSettings;
use serde::{Deserialize, Serialize};
use windlass::JobId;
use windlass_cli::failure::Failure;

/// What a worker process is to do: the first line that it reads.
#[derive(Serialize, Deserialize)]
pub(crate) struct Task {
    /// Sent through a pipe: the URL may hold a password, which a list of processes would show.
    pub(crate) url: String,
    pub(crate) settings: WorkerSettings,
    /// How many workers the process has.
    pub(crate) workers: usize,
    /// How many jobs all processes are to handle together, numbered from 0.
    pub(crate) jobs: u64,
    /// Jobs with smaller ids are not counted.
    pub(crate) first: JobId,
}

/// What a worker process answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    Ready,
    Progress { handled: u64, settled: bool },
    Done(ProcessReport),
    Failed(String),
}

/// What a worker process did.
#[derive(Serialize, Deserialize)]
pub(super) struct ProcessReport {
    /// A bit for each job that it handled, in hexadecimal digits of four jobs each.
    pub(super) seen: String,
    pub(super) repeated: u64,
    pub(super) strangers: u64,
    pub(super) cpu_seconds: f64,
    pub(super) peak_memory: Option<u64>,
}

/// The failure of a process that does not keep to this.
pub(super) fn broken(why: &str) -> Failure {
    Failure::failed("worker_process", format!("a worker process failed: {why}"))
}
