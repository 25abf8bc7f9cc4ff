use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::round,
    meter::Meter,
    options::{MAX_JOBS, MAX_PAYLOAD, QUEUE, batch_of},
    store::{connect, connect_each, next_id},
    worked,
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::json;
use windlass::Timestamp;
use windlass_cli::{
    failure::Outcome,
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second},
    progress::Progress,
};

/// How many jobs the worker runs at once.
const CONCURRENCY: usize = 100;

/// Enqueues jobs without work, in batches or one by one.
#[derive(clap::Args)]
pub(crate) struct Enqueue {
    /// Batches in one call each, or single jobs
    #[arg(long, value_enum, default_value_t = Mode::Bulk)]
    mode: Mode,
    /// How many jobs. Default: 1,000,000 in batches, 100,000 one by one
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: Option<u64>,
    /// How many jobs a batch has. Default: 10,000, or fewer if these would carry more than 8 MiB
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch: Option<u64>,
    /// How many connections enqueue at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// How many bytes of text each job carries
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MAX_PAYLOAD))]
    payload: u64,
    /// Each job is unique, until it has finished, by a key of its own
    #[arg(long, conflicts_with = "payload")]
    unique: bool,
    /// Lets a worker take the jobs at the same time
    #[arg(long)]
    with_worker: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Many jobs in one transaction
    #[value(alias = "copy")]
    Bulk,
    /// One job in one transaction
    Single,
}

impl Enqueue {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let mut meter = Meter::open(store).await;
        let (jobs, clients) = (self.jobs(), usize::from(self.clients));
        let client = connect(store, clients).await?;
        client.migrate().await?;
        meter.restart().await; // the schema is no cost of a job
        let settings = WorkerSettings { concurrency: CONCURRENCY, settling: Settling::default() };
        let beside = connect_each(&store.url, 1).await?;
        let workers = match self.with_worker {
            true => {
                let expected = Expected { jobs, first: next_id(&client).await? };
                Some(Workers::start(&beside, settings, expected).await?.0)
            }
            false => None,
        };
        let load = match self.unique {
            true => Load::Unique { run: Timestamp::now().as_microsecond().unsigned_abs() },
            false => Load::carrying(self.payload as usize),
        };
        let work = Fill { queue: QUEUE, jobs, batch: self.batch(), clients };
        let (filled, each_second) = fill(&client, &work, load, globals.json).await?;
        let costs = meter.costs(&meter.read().await, jobs);
        client.close().await;
        let worked = workers.is_some();
        let progress = || Progress::new("completed", jobs, globals.json);
        if let Some(workers) = workers {
            worked::finish(workers, &meter, &mut progress()).await?;
        }
        beside[0].close().await;
        let commits = meter.commits_per_job(jobs).await;
        if !worked && !store.is_temporary() {
            // This is not measured. What was enqueued must not stay in the user's store.
            let expected = Expected { jobs, first: filled.first };
            worked::work(store, (1, settings), expected, &meter, &mut progress()).await?;
        }
        let options = json!({
            "mode": if self.mode == Mode::Bulk { "bulk" } else { "single" },
            "jobs": jobs,
            "batch": self.batch(),
            "clients": clients,
            "payload": self.payload,
            "unique": self.unique,
            "with_worker": self.with_worker,
        });
        let figures = json!({
            "enqueued_seconds": round(filled.took.as_secs_f64()),
            "enqueued_per_second": per_second(jobs, filled.took),
            "per_second": each_second,
            "enqueue_call": filled.calls.report(),
        });
        let settling = worked.then(Settling::default);
        Ok(Finding::new("enqueue", settling, (options, figures)).costing(costs, commits))
    }

    fn jobs(&self) -> u64 {
        self.jobs.unwrap_or(match self.mode {
            Mode::Bulk => 1_000_000,
            Mode::Single => 100_000,
        })
    }

    fn batch(&self) -> u64 {
        match self.mode {
            Mode::Bulk => self.batch.unwrap_or(batch_of(self.payload)),
            Mode::Single => 1,
        }
    }
}
