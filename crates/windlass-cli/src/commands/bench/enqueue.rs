use super::{Finding, MAX_JOBS, MAX_PAYLOAD, Meter, QUEUE, Settling, batch_of};
use crate::{
    cli::Globals,
    failure::Outcome,
    measure::{per_second, round},
    progress::Progress,
    trial::{Crew, Fill, Load, Place, Team, fill, next_id},
};
use serde_json::json;

/// How many jobs run at once in the worker beside.
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
    /// How many jobs a batch has. Default: 10,000, or as many as carry 8 MiB
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch: Option<u64>,
    /// How many connections enqueue at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// How many bytes of text each job carries
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MAX_PAYLOAD))]
    payload: u64,
    /// Lets a worker take the jobs meanwhile
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
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Finding> {
        let meter = Meter::open(place).await;
        let (jobs, clients) = (self.jobs(), usize::from(self.clients));
        let client = place.client(clients).await?;
        client.migrate().await?;
        let team = Team::new(QUEUE, CONCURRENCY);
        let beside = place.clients(1).await?;
        let crew = match self.with_worker {
            true => Some(Crew::start(&beside, &team, (jobs, next_id(&client).await?)).await?.0),
            false => None,
        };
        let load = Load::carrying(self.payload as usize);
        let work = Fill { queue: QUEUE.into(), jobs, batch: self.batch(), clients, load };
        let filled = fill(&client, &work, &mut Progress::new("enqueued", jobs, globals.json)).await?;
        let costs = meter.costs(&meter.read().await, jobs);
        client.close().await;
        let worked = crew.is_some();
        if let Some(crew) = crew {
            complete(crew, jobs, globals).await?;
        }
        beside[0].close().await;
        let commits = meter.commits_per_job(jobs).await;
        if !worked && !place.is_temporary() {
            // Not measured: what was enqueued must not stay in the user's store.
            let after = place.clients(1).await?;
            complete(Crew::start(&after, &team, (jobs, filled.first)).await?.0, jobs, globals).await?;
            after[0].close().await;
        }
        let settings = json!({
            "mode": if self.mode == Mode::Bulk { "bulk" } else { "single" },
            "jobs": jobs,
            "batch": self.batch(),
            "clients": clients,
            "payload": self.payload,
            "with_worker": self.with_worker,
        });
        let figures = json!({
            "enqueued_seconds": round(filled.took.as_secs_f64()),
            "enqueued_per_second": per_second(jobs, filled.took),
            "per_second": filled.per_second,
            "enqueue_call": filled.calls.report(),
        });
        let settling = worked.then(Settling::default);
        Ok(Finding::new("enqueue", settling, (settings, figures)).costing(costs, commits))
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

/// Waits until every job was worked, exactly once.
async fn complete(mut crew: Crew, jobs: u64, globals: &Globals) -> Outcome {
    crew.finish(&mut Progress::new("completed", jobs, globals.json)).await?;
    crew.verify()?;
    crew.stop().await;
    Ok(())
}
