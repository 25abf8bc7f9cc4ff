use crate::{Settings, Tally};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// The arguments of each job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub id: u64,
}

/// A queue under measurement. Producers run at once, on tasks of their own; all else is awaited where it is called.
pub trait System: Sized + Send + Sync + 'static {
    /// Its package, as the lock file names it.
    const PACKAGE: &'static str;
    type Producer: Producer;
    type Worker: Worker;

    /// Connects.
    fn open(settings: &Settings) -> impl Future<Output = anyhow::Result<Self>>;
    /// Makes the schema in the empty database.
    fn install(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// Makes clients that are connected already.
    fn producers(&self, count: usize) -> impl Future<Output = anyhow::Result<Vec<Self::Producer>>>;
    /// Makes a worker that is connected but takes no jobs yet; each job that it takes it hands to the tally.
    fn worker(
        &self,
        settings: &Settings,
        tally: Arc<Tally>,
    ) -> impl Future<Output = anyhow::Result<Self::Worker>>;
    /// How many jobs the store holds that are not completed.
    fn unfinished(&self) -> impl Future<Output = anyhow::Result<u64>>;
    /// What is set in this scenario, with the values.
    fn describe(settings: &Settings) -> serde_json::Value;
}

/// A client that enqueues.
pub trait Producer: Send + 'static {
    /// Enqueues one job by the call for single jobs, durably.
    fn one(&mut self, id: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Enqueues jobs by the fastest call for many.
    fn many(&mut self, ids: Range<u64>) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// A worker of one process.
pub trait Worker: Send {
    fn start(&mut self) -> impl Future<Output = anyhow::Result<()>>;
    /// Lets the running jobs finish.
    fn stop(self) -> impl Future<Output = anyhow::Result<()>>;
}
