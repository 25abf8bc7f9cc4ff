use super::{
    QUEUE, Report,
    report::{Baseline, round},
};
use crate::{
    cli::Globals,
    failure::Outcome,
    measure::per_second,
    open,
    progress::Progress,
    trial::{Crew, Nap, Place},
};
use serde_json::json;
use windlass::{Error, IntoJob, JobId};

/// How many jobs are enqueued in one call.
const BATCH: u64 = 5_000;

/// Works jobs that wait.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// How long each job waits, in milliseconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    sleep_ms: u64,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100)]
    concurrency: usize,
    /// How many jobs
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=super::MAX_JOBS))]
    jobs: u64,
}

impl Work {
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Report> {
        let client = open::create(&place.url).await?;
        client.migrate().await?;
        let mut first = None;
        for start in (0..self.jobs).step_by(BATCH as usize) {
            let nap = |id| Ok(Nap { id, ms: self.sleep_ms }.into_job()?.with_queue(QUEUE));
            let batch = (start..self.jobs.min(start + BATCH)).map(nap).collect::<Result<Vec<_>, Error>>()?;
            first = first.or(client.enqueue_many(batch).await?.first().copied());
        }
        let baseline = Baseline::take(place).await;
        let expected = (self.jobs, first.unwrap_or(JobId(0)));
        let (crew, _pings) = Crew::start(&client, QUEUE, self.concurrency, expected).await?;
        let completed_in = crew.finish(&mut Progress::new("completed", self.jobs, globals.json)).await?;
        let spent = baseline.spent(self.jobs).await;
        crew.verify()?;
        crew.stop().await;
        let settings =
            json!({ "sleep_ms": self.sleep_ms, "concurrency": self.concurrency, "jobs": self.jobs });
        let most = self.concurrency as f64 * 1e3 / self.sleep_ms as f64;
        let rate = per_second(self.jobs, completed_in);
        let figures = json!({
            "completed_seconds": round(completed_in.as_secs_f64()),
            "completed_per_second": rate,
            "theoretical_per_second": round(most),
            "of_theoretical_percent": round(rate as f64 / most * 100.0),
        });
        spent.report("work", (&client, place), (settings, figures)).await
    }
}
