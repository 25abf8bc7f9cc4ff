use super::{
    MAX_JOBS, QUEUE, Report,
    report::{Baseline, round},
};
use crate::{
    cli::Globals,
    failure::Outcome,
    measure::per_second,
    progress::Progress,
    trial::{Crew, Fill, Place, fill},
};
use serde_json::json;
use windlass::{Client, ConnectOptions, JobFilter, JobId};

/// How many jobs run at once in the worker beside.
const CONCURRENCY: usize = 100;

/// Enqueues jobs without work, in batches or one by one.
#[derive(clap::Args)]
pub(crate) struct Enqueue {
    /// Batches in one call each, or single jobs
    #[arg(long, value_enum, default_value_t = Mode::Copy)]
    mode: Mode,
    /// How many jobs. Default: 1,000,000 in batches, 100,000 one by one
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: Option<u64>,
    /// How many jobs a batch has
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch: u64,
    /// How many connections enqueue at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// Lets a worker take the jobs meanwhile
    #[arg(long)]
    with_worker: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Many jobs in one transaction
    Copy,
    /// One job in one transaction
    Single,
}

impl Enqueue {
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Report> {
        let (batch, default_jobs) = match self.mode {
            Mode::Copy => (self.batch, 1_000_000),
            Mode::Single => (1, 100_000),
        };
        let jobs = self.jobs.unwrap_or(default_jobs);
        let clients = usize::from(self.clients);
        let options = ConnectOptions::default().with_pool_size(clients);
        let client = Client::connect_with(&place.url, options).await?;
        client.migrate().await?;
        let before = newest(&client).await?;
        let mut crew = match self.with_worker {
            true => Some(Crew::start(&client, QUEUE, CONCURRENCY, (jobs, before)).await?.0),
            false => None,
        };
        let baseline = Baseline::take(place).await;
        let mut progress = Progress::new("enqueued", jobs, globals.json);
        let work = Fill { queue: QUEUE.into(), jobs, batch, clients };
        let (enqueued_in, first) = fill(&client, &work, &mut progress).await?;
        drop(progress);
        let spent = baseline.spent(jobs).await;
        let settings = json!({
            "mode": if self.mode == Mode::Copy { "copy" } else { "single" },
            "jobs": jobs,
            "batch": batch,
            "clients": clients,
            "with_worker": self.with_worker,
        });
        let figures = json!({
            "enqueued_seconds": round(enqueued_in.as_secs_f64()),
            "enqueued_per_second": per_second(jobs, enqueued_in),
        });
        if crew.is_none() && !place.is_temporary() {
            // Not measured: what was enqueued must not stay in the user's store.
            crew = Some(Crew::start(&client, QUEUE, CONCURRENCY, (jobs, first)).await?.0);
        }
        if let Some(crew) = crew {
            crew.finish(&mut Progress::new("completed", jobs, globals.json)).await?;
            crew.stop().await;
        }
        spent.report("enqueue", (&client, place), (settings, figures)).await
    }
}

/// The id after the newest job: what is enqueued from now on has at least this.
async fn newest(client: &Client) -> Outcome<JobId> {
    let newest = client.jobs(&JobFilter { limit: 1, ..JobFilter::default() }).await?;
    Ok(newest.first().map_or(JobId(0), |job| JobId(job.id.0 + 1)))
}
