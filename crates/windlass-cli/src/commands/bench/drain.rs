use super::{
    MAX_JOBS, QUEUE, Report,
    report::{Baseline, round},
};
use crate::{
    cli::Globals,
    failure::Outcome,
    measure::{HeldSnapshot, per_second},
    open,
    progress::Progress,
    trial::{Crew, Fill, Place, fill},
};
use serde_json::json;

/// How many jobs are enqueued in one call.
const BATCH: u64 = 10_000;

/// Enqueues jobs without work, then works them off.
#[derive(clap::Args)]
pub(crate) struct Drain {
    /// How many jobs
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100)]
    concurrency: usize,
    /// How many connections enqueue
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// Holds another session's snapshot open all the while, as a long report would (PostgreSQL)
    #[arg(long)]
    hold_snapshot: bool,
}

impl Drain {
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Report> {
        let held = match self.hold_snapshot {
            true => Some(HeldSnapshot::open(&place.url).await?),
            false => None,
        };
        let client = open::create(&place.url).await?;
        client.migrate().await?;
        let baseline = Baseline::take(place).await;
        let mut progress = Progress::new("enqueued", self.jobs, globals.json);
        let work = Fill { queue: QUEUE.into(), jobs: self.jobs, batch: BATCH, clients: self.clients };
        let (enqueued_in, first) = fill(&client, &work, &mut progress).await?;
        drop(progress);
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        let (crew, _pings) = Crew::start(&client, QUEUE, self.concurrency, (self.jobs, first)).await?;
        let completed_in = crew.finish(&mut progress).await?;
        drop(progress);
        let spent = baseline.spent(self.jobs).await;
        crew.verify()?;
        let settings = json!({
            "jobs": self.jobs,
            "concurrency": self.concurrency,
            "clients": self.clients,
            "batch": BATCH,
            "hold_snapshot": self.hold_snapshot,
        });
        let figures = json!({
            "enqueued_seconds": round(enqueued_in.as_secs_f64()),
            "enqueued_per_second": per_second(self.jobs, enqueued_in),
            "completed_seconds": round(completed_in.as_secs_f64()),
            "completed_per_second": per_second(self.jobs, completed_in),
        });
        crew.stop().await;
        let report = spent.report("drain", (&client, place), (settings, figures)).await;
        drop(held);
        report
    }
}
