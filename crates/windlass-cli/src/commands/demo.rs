mod report;

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::until_interrupted,
    measure::{
        CountedWorkers, Expected, Fill, MAX_JOBS, MeasuredStore, Noop, counts, cpu_seconds, fill,
        peak_memory, per_second, ping,
    },
    open,
    progress::Progress,
};
use report::Report;
use std::time::Duration;
use windlass::{Client, IntoJob, Worker, WorkerConfig};

/// The queue of the demo in a store that somebody else uses as well.
const QUEUE: &str = "windlass-demo";
/// How many jobs are enqueued in one call.
const BATCH: u64 = 5_000;
/// How many calls are under way at once.
const CLIENTS: usize = 4;

/// The size of the demo.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// How many jobs
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=WorkerConfig::MAX_CONCURRENCY as i64))]
    concurrency: u32,
    /// How many single jobs the latency is measured with
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    samples: u64,
}

impl Demo {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let store = MeasuredStore::open(globals)?;
        let report = until_interrupted(self.measure(globals, &store)).await?;
        drop(store);
        globals.print(&report, || report.text())
    }

    async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Report> {
        let client = open::create(&store.url).await?;
        client.migrate().await?;

        let mut progress = Progress::new("enqueued", self.jobs, globals.json);
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: BATCH, clients: CLIENTS };
        let job = |id| Noop { id }.into_job();
        let filled = fill(&client, &work, job, |_, done| progress.reach(done)).await?;
        drop(progress);

        let mut progress = Progress::new("completed", self.jobs, globals.json);
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let (workers, mut starts) =
            CountedWorkers::start(std::slice::from_ref(&client), expected, |client, _| {
                Worker::builder(client).queue(QUEUE, self.concurrency as usize)
            })
            .await?;
        let completed_in = workers.finish(|done| progress.reach(done)).await?;
        drop(progress);

        let mut progress = Progress::new("latency", self.samples, globals.json);
        let pings = (self.samples, Duration::ZERO);
        let latencies =
            ping(&client, |job| job.with_queue(QUEUE), pings, &mut starts, |done| progress.reach(done))
                .await?;
        drop(progress);

        workers.verify()?;
        workers.stop().await;
        Self::verify_counts(&client).await?;
        let status = client.status().await?;
        client.close().await;
        Ok(Report {
            jobs: self.jobs,
            concurrency: self.concurrency as usize,
            store: status.store,
            place: store.name(),
            durability: store.durability().unwrap_or("synchronous_commit as the server sets it"),
            enqueued_seconds: filled.took.as_secs_f64(),
            enqueued_per_second: per_second(self.jobs, filled.took),
            completed_seconds: completed_in.as_secs_f64(),
            completed_per_second: per_second(self.jobs, completed_in),
            latency: latencies.report(),
            cpu_seconds: cpu_seconds(),
            peak_memory_bytes: peak_memory(),
            size_bytes: status.size_bytes,
            verified: true,
        })
    }

    /// The store agrees that nothing is left. Counts of completed jobs may be estimates, so they are not compared:
    /// the handlers were counted, and each settlement was confirmed.
    async fn verify_counts(client: &Client) -> Outcome {
        let counts = counts(client, QUEUE).await?;
        let left = counts.available + counts.running + counts.retryable + counts.scheduled + counts.discarded;
        if left == 0 {
            return Ok(());
        }
        let message = format!("the store does not agree: expected that no job is left, got {counts:?}");
        Err(Failure::failed("not_exactly_once", message))
    }
}
