//! What is said to a member, and what it says: JSON, a line each.

use crate::trial::Team;
use serde::{Deserialize, Serialize};

/// What a member is to do: the first line that it reads.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    /// Told through a pipe: the URL may hold a password, which a list of processes would show.
    pub(super) url: String,
    pub(super) team: Team,
    pub(super) workers: usize,
    pub(super) jobs: u64,
    pub(super) first: i64,
}

/// What a member tells.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum News {
    Ready,
    At { handled: u64, settled: bool },
    Done(Deed),
    Failed(String),
}

/// What a member did.
#[derive(Serialize, Deserialize)]
pub(super) struct Deed {
    /// A bit for each job, in hexadecimal digits of four jobs each.
    pub(super) seen: String,
    pub(super) repeated: u64,
    pub(super) strangers: u64,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) peak_memory: Option<u64>,
}
