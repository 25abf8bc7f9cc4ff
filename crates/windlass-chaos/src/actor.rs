//! The processes of a run: producers and workers, real ones, each with a history of its own.
//!
//! An actor is this same program with a hidden subcommand and its [`Order`] as JSON, or for a worker another program, in another
//! language, with the same argument: see [`Watch`] and docs/design/proof.md. It ends gracefully on SIGTERM, and when its standard
//! input closes, so that none outlives the run.

mod gate;
mod keeper;
mod leading;
mod listener;
mod load;
mod producer;
mod replacing;
mod sweep;
mod task;
mod timetable;
mod wait;
mod watch;
mod worker;

pub(crate) use gate::Gate;
pub(crate) use leading::LEADER;
pub use load::{Load, Mix};
pub use task::{Act, Task};
pub use timetable::Timetable;
pub use watch::Watch;

use crate::bug::Bug;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tokio::io::AsyncReadExt;

/// What an actor is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The store's URL.
    pub store: String,
    /// Where its history goes.
    pub history: PathBuf,
    /// Its number in the run: each start of a process has its own.
    pub number: u64,
    /// Where its random choices come from.
    pub seed: u64,
    /// The bug that it has, when the checker is on trial.
    pub bug: Option<Bug>,
    /// What it does.
    pub role: Role,
}

/// What an actor does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Enqueues jobs.
    Producer(Load),
    /// Works.
    Worker(Work),
    /// Reads what happens to jobs, from where it was before it died.
    Listener,
    /// Looks after these schedules.
    Keeper(Timetable),
}

/// How a worker works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Jobs at once, of each queue.
    pub slots: usize,
    /// The queues.
    pub queues: Vec<String>,
    /// Milliseconds until a silent worker's jobs are taken.
    pub lease_ms: u64,
    /// Milliseconds that running jobs may go on after SIGTERM.
    pub grace_ms: u64,
    /// Whether it knows the kind `rare`.
    pub knows_rare: bool,
    /// How long completed jobs stay readable, in seconds; none: a day.
    pub retention_s: Option<u64>,
    /// The schedules that it declares when it starts.
    #[serde(default)]
    pub timetable: Timetable,
    /// For how many milliseconds it leads at most without asking again, and it writes down that it does; none: as usual.
    #[serde(default)]
    pub term_ms: Option<u64>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            slots: 20,
            queues: vec!["default".to_owned()],
            lease_ms: 2_000,
            grace_ms: 500,
            knows_rare: true,
            retention_s: None,
            timetable: Timetable::default(),
            term_ms: None,
        }
    }
}

/// Runs an actor until it is told to stop.
///
/// # Errors
/// When its history cannot be written or the store's URL is wrong. An unreachable store is waited for.
pub fn run(order: &Order) -> Result<()> {
    let recorder = watch::recorder(order)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        match order.role.clone() {
            Role::Producer(load) => producer::run(order, load, recorder).await,
            Role::Worker(work) => worker::run(order, work, recorder).await,
            Role::Listener => listener::run(order, recorder).await,
            Role::Keeper(timetable) => keeper::run(order, timetable, recorder).await,
        }
    });
    // The thread that reads the standard input would hold the process up until somebody closes that.
    runtime.shutdown_background();
    done
}

/// Returns when whoever started this process closes its standard input, or is gone.
async fn dismissed() {
    let mut input = tokio::io::stdin();
    let mut bytes = [0; 64];
    while matches!(input.read(&mut bytes).await, Ok(read) if read > 0) {}
}

/// Connects, however long the store is away.
async fn connect(url: &str) -> Result<windlass::Client> {
    loop {
        match windlass::Client::connect(url).await {
            Ok(client) => return Ok(client),
            Err(error) if error.is_connection_loss() || error.is_retryable() => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
