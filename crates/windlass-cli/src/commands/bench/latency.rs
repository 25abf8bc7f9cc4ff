use super::{QUEUE, Report, report::Baseline};
use crate::{
    cli::Globals,
    failure::Outcome,
    open,
    progress::Progress,
    span,
    trial::{Crew, Place, ping},
};
use serde_json::json;
use std::time::Duration;
use windlass::JobId;

/// How many jobs go before those that are measured.
const WARM_UP: u64 = 200;

/// Enqueues one job at a time for an idle worker.
#[derive(clap::Args)]
pub(crate) struct Latency {
    /// How many jobs
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    samples: u64,
    /// How long to wait after each job; with 30ms the worker has gone to sleep in between
    #[arg(long, value_parser = span::parse, default_value = "0s")]
    gap: Duration,
    /// How many jobs may run at once
    #[arg(long, default_value_t = 10)]
    concurrency: usize,
}

impl Latency {
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Report> {
        let client = open::create(&place.url).await?;
        client.migrate().await?;
        let (crew, mut arrived) = Crew::start(&client, QUEUE, self.concurrency, (0, JobId(i64::MAX))).await?;
        // The first jobs find connections to open and statements to plan; an idle worker has done that.
        let mut warming = Progress::new("warm-up", WARM_UP, globals.json);
        ping(&client, QUEUE, (WARM_UP, self.gap), &mut arrived, &mut warming).await?;
        drop(warming);
        let baseline = Baseline::take(place).await;
        let mut progress = Progress::new("latency", self.samples, globals.json);
        let pings = (self.samples, self.gap);
        let latencies = ping(&client, QUEUE, pings, &mut arrived, &mut progress).await?;
        drop(progress);
        let spent = baseline.spent(self.samples).await;
        crew.stop().await;
        let gap_ms = self.gap.as_millis() as u64;
        let settings = json!({ "samples": self.samples, "warm_up": WARM_UP, "gap_ms": gap_ms, "concurrency": self.concurrency });
        let figures = json!({ "latency": latencies.report() });
        spent.report("latency", (&client, place), (settings, figures)).await
    }
}
