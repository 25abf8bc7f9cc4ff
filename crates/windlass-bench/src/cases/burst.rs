use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::round,
    meter::Meter,
    options::{MAX_CONCURRENCY, QUEUE, batch_of},
    store::{connect, connect_each, next_id},
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass::Timestamp;
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second},
    progress::Progress,
};

/// How many connections enqueue.
const CLIENTS: usize = 2;
/// How long before the due time everything is enqueued and the count of each second begins.
const JUST_BEFORE: Duration = Duration::from_millis(5);

/// Schedules jobs for one moment, and measures how long after it they start. Lateness compares the clock of this
/// machine with the clock of the store: use a store on this machine, or one whose clock is synchronised.
#[derive(clap::Args)]
pub(crate) struct Burst {
    /// How many jobs
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// How many seconds from now the jobs are due; all must be enqueued by then
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=50))]
    ahead: u64,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How the worker settles what it handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Burst {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let clients = connect_each(&store.url, 1).await?;
        let settings = WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling };
        let expected = Expected { jobs: self.jobs, first: next_id(&client).await? };
        let (mut workers, _starts) = Workers::start(&clients, settings, expected).await?;
        let due_in = Duration::from_secs(self.ahead);
        let due = Instant::now() + due_in;
        // Stores keep whole microseconds.
        let alarm =
            Timestamp::from_microsecond(Timestamp::now().as_microsecond() + due_in.as_micros() as i64)
                .map_err(|error| Failure::failed("internal", error.to_string()))?;
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let (filled, _) = fill(&client, &work, Load::Alarm(alarm), globals.json).await?;
        if Instant::now() >= due {
            let message = format!(
                "enqueueing {} jobs took {:.1} s, so they were due before all were there; raise --ahead",
                self.jobs,
                filled.took.as_secs_f64()
            );
            return Err(Failure::failed("too_slow", message));
        }
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        // The count of each second begins just before the jobs are due.
        tokio::time::sleep((due - JUST_BEFORE).saturating_duration_since(Instant::now())).await;
        workers.look(&mut progress);
        workers.finish(&mut progress).await?;
        drop(progress);
        let took = due.elapsed();
        let costs = meter.costs(&meter.read().await, self.jobs);
        workers.verify()?;
        let figures = json!({
            "enqueued_per_second": per_second(self.jobs, filled.took),
            "completed_seconds": round(took.as_secs_f64()),
            "completed_per_second": per_second(self.jobs, took),
            "lateness": workers.delays().report(),
            "started_early": workers.early(),
            "per_second": workers.per_second_after((due - JUST_BEFORE).saturating_duration_since(workers.started())),
        });
        workers.stop().await;
        clients[0].close().await;
        client.close().await;
        let commits = meter.commits_per_job(self.jobs).await;
        let options = json!({ "jobs": self.jobs, "ahead": self.ahead, "concurrency": self.concurrency });
        Ok(Finding::new("burst", self.settling, (options, figures)).costing(costs, commits))
    }
}
