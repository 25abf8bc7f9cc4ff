//! Measurements of a store, each through the same client and worker that programs use.

mod burst;
mod drain;
mod enqueue;
mod latency;
mod limit;
mod list;
mod meter;
mod mixed;
mod report;
mod run;
mod scenario;
mod scenarios;
mod startup;
mod work;

use crate::{
    cli::Globals,
    failure::Outcome,
    trial::{Place, Settling, member, sweep, until_interrupted},
};
use meter::Meter;
use report::{Finding, Report};

/// The queue of every bench.
const QUEUE: &str = "windlass-bench";
/// The most jobs of a bench; each takes a byte.
const MAX_JOBS: u64 = crate::measure::MAX_JOBS;
/// The most jobs that one worker runs at once.
const MAX_CONCURRENCY: i64 = windlass::WorkerConfig::MAX_CONCURRENCY as i64;
/// The most text that a job carries: a little less than a store takes by default.
const MAX_PAYLOAD: u64 = 1_000_000;

/// What to measure.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Lists the scenarios: what each measures, and the published figure that it answers
    List(list::List),
    /// Runs scenarios, each of their points in a process of its own
    Run(run::Run),
    #[command(flatten)]
    Point(Point),
    /// A worker process of `drain --processes`
    #[command(hide = true)]
    Member,
}

/// One measurement.
#[derive(clap::Subcommand)]
pub(crate) enum Point {
    /// How fast jobs are enqueued
    Enqueue(enqueue::Enqueue),
    /// Jobs without work: how fast a backlog is drained
    Drain(drain::Drain),
    /// Jobs that wait or calculate: how close the worker comes to the theoretical maximum
    Work(work::Work),
    /// Enqueueing and working at once
    Mixed(mixed::Mixed),
    /// From enqueue to the start of the handler
    Latency(latency::Latency),
    /// How long a worker takes to its first job, and to its end
    Startup(startup::Startup),
    /// Many jobs scheduled for one moment: how late they start
    Burst(burst::Burst),
    /// What the database does with the same rows when nothing makes a queue of them
    Limit(limit::Limit),
}

impl Bench {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        match self {
            Self::List(list) => list.run(globals),
            Self::Run(run) => run.run(globals).await,
            Self::Point(point) => point.run(globals).await,
            Self::Member => member().await,
        }
    }
}

impl Point {
    async fn run(self, globals: &Globals) -> Outcome {
        let place = self.place(globals)?;
        let finding = until_interrupted(self.measure(globals, &place)).await;
        if finding.is_err() && !place.is_temporary() {
            self.clean_up(globals, &place).await;
        }
        let report = Report::new(finding?, &place, globals).await?;
        drop(place);
        globals.print(&report, || report.text())
    }

    fn place(&self, globals: &Globals) -> Outcome<Place> {
        let place = Place::find(globals)?;
        match self {
            Self::Drain(drain) if drain.async_commit => place.without_waiting(),
            _ => Ok(place),
        }
    }

    async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Finding> {
        match self {
            Self::Enqueue(enqueue) => enqueue.measure(globals, place).await,
            Self::Drain(drain) => drain.measure(globals, place).await,
            Self::Work(work) => work.measure(globals, place).await,
            Self::Mixed(mixed) => mixed.measure(globals, place).await,
            Self::Latency(latency) => latency.measure(globals, place).await,
            Self::Startup(startup) => startup.measure(place).await,
            Self::Burst(burst) => burst.measure(globals, place).await,
            Self::Limit(limit) => limit.measure(place).await,
        }
    }

    /// What was enqueued must not stay in the user's store. Another signal gives up.
    async fn clean_up(&self, globals: &Globals, place: &Place) {
        // A store that cannot be reached has nothing of ours that could be cleaned up now.
        if let Ok(left) = until_interrupted(sweep(place, QUEUE)).await
            && left > 0
            && !globals.json
        {
            eprintln!("{left} jobs of the bench are left in queue {QUEUE}");
        }
    }
}

/// How many jobs that carry so much are enqueued in one call.
fn batch_of(payload: u64) -> u64 {
    const MOST: u64 = 10_000;
    const BYTES: u64 = 8 << 20;
    (BYTES / (payload + 1)).clamp(1, MOST)
}
