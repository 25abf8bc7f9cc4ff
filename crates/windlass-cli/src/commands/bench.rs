//! Small measurements of a store, each through the same client and worker that programs use.

mod drain;
mod enqueue;
mod latency;
mod report;
mod startup;
mod work;

use crate::{
    cli::Globals,
    failure::Outcome,
    trial::{Place, until_interrupted},
};
use report::Report;

/// The queue of every bench.
const QUEUE: &str = "windlass-bench";
/// The most jobs of a bench; each takes a byte.
const MAX_JOBS: u64 = 1_000_000_000;

/// What to measure. Runs in a temporary SQLite file, or in the store named with --store, there in a
/// queue of its own.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Jobs without work: how fast a backlog is drained
    Drain(drain::Drain),
    /// How fast jobs are enqueued
    Enqueue(enqueue::Enqueue),
    /// From the call of enqueue to the start of the handler, one job at a time
    Latency(latency::Latency),
    /// Jobs that wait: how close the worker comes to the theoretical maximum
    Work(work::Work),
    /// How long a worker takes to its first job, and to its end
    Startup(startup::Startup),
}

impl Bench {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let place = Place::find(globals)?;
        let report = until_interrupted(self.measure(globals, &place)).await?;
        drop(place);
        globals.print(&report, || report.text())
    }

    async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Report> {
        match self {
            Self::Drain(drain) => drain.measure(globals, place).await,
            Self::Enqueue(enqueue) => enqueue.measure(globals, place).await,
            Self::Latency(latency) => latency.measure(globals, place).await,
            Self::Work(work) => work.measure(globals, place).await,
            Self::Startup(startup) => startup.measure(place).await,
        }
    }
}
