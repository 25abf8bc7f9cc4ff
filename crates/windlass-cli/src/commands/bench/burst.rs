use super::{Finding, MAX_CONCURRENCY, Meter, QUEUE, batch_of};
use crate::{
    cli::Globals,
    failure::{Failure, Outcome},
    measure::{per_second, round},
    progress::Progress,
    trial::{Crew, Fill, Load, Place, Settling, Team, fill, next_id},
};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass::Timestamp;

/// How many connections enqueue.
const CLIENTS: usize = 2;
/// How long before the moment all is quiet.
const JUST_BEFORE: Duration = Duration::from_millis(5);

/// Schedules jobs for one moment, and measures how long after it they start. Lateness compares this machine's
/// clock with the store's: use a store on this machine, or one whose clock is as right.
#[derive(clap::Args)]
pub(crate) struct Burst {
    /// How many jobs
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// How many seconds ahead the moment is; all jobs must be enqueued before it
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
    pub(super) async fn measure(&self, globals: &Globals, place: &Place) -> Outcome<Finding> {
        let meter = Meter::open(place).await;
        let client = place.client(CLIENTS).await?;
        client.migrate().await?;
        let clients = place.clients(1).await?;
        let team = Team::new(QUEUE, self.concurrency as usize).settling(self.settling);
        let expected = (self.jobs, next_id(&client).await?);
        let (mut crew, _pings) = Crew::start(&clients, &team, expected).await?;
        let due_in = Duration::from_secs(self.ahead);
        let due = Instant::now() + due_in;
        // Whole microseconds, as the stores keep them.
        let alarm =
            Timestamp::from_microsecond(Timestamp::now().as_microsecond() + due_in.as_micros() as i64)
                .map_err(|error| Failure::failed("internal", error.to_string()))?;
        let load = Load::Alarm(alarm);
        let work = Fill { queue: QUEUE.into(), jobs: self.jobs, batch: batch_of(0), clients: CLIENTS, load };
        let filled = fill(&client, &work, &mut Progress::new("enqueued", self.jobs, globals.json)).await?;
        if Instant::now() >= due {
            let message = format!(
                "enqueueing {} jobs took {:.1} s, so they were due before all were there; raise --ahead",
                self.jobs,
                filled.took.as_secs_f64()
            );
            return Err(Failure::failed("too_slow", message));
        }
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        // A look just before it: the seconds count from there.
        tokio::time::sleep((due - JUST_BEFORE).saturating_duration_since(Instant::now())).await;
        crew.look(&mut progress);
        crew.finish(&mut progress).await?;
        drop(progress);
        let took = due.elapsed();
        let costs = meter.costs(&meter.read().await, self.jobs);
        crew.verify()?;
        let figures = json!({
            "enqueued_per_second": per_second(self.jobs, filled.took),
            "completed_seconds": round(took.as_secs_f64()),
            "completed_per_second": per_second(self.jobs, took),
            "lateness": crew.delays().report(),
            "started_early": crew.early(),
            "per_second": crew.per_second_after((due - JUST_BEFORE).saturating_duration_since(crew.started)),
        });
        crew.stop().await;
        clients[0].close().await;
        client.close().await;
        let commits = meter.commits_per_job(self.jobs).await;
        let settings = json!({ "jobs": self.jobs, "ahead": self.ahead, "concurrency": self.concurrency });
        Ok(Finding::new("burst", self.settling, (settings, figures)).costing(costs, commits))
    }
}
