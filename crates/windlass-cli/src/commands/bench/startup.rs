use super::{Finding, Meter, QUEUE, Settling};
use crate::{
    failure::{Failure, Outcome},
    measure::round,
    open,
    trial::{Crew, Ping, Place, Team},
};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass::{IntoJob, JobId};

/// Starts and stops workers.
#[derive(clap::Args)]
pub(crate) struct Startup {
    /// How often
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
}

/// How long the parts of one run took.
#[derive(Default)]
struct Parts {
    connect: Duration,
    first_job: Duration,
    shutdown: Duration,
    idle: Duration,
}

impl Startup {
    pub(super) async fn measure(&self, place: &Place) -> Outcome<Finding> {
        let meter = Meter::open(place).await;
        let client = open::create(&place.url).await?;
        client.migrate().await?;
        let mut sum = Parts::default();
        for run in 0..self.runs {
            client.enqueue(Ping { id: run.into() }.into_job()?.with_queue(QUEUE)).await?;
            let parts = one_run(place).await?;
            sum.connect += parts.connect;
            sum.first_job += parts.first_job;
            sum.shutdown += parts.shutdown;
            sum.idle += parts.idle;
        }
        client.close().await;
        let costs = meter.costs(&meter.read().await, self.runs.into());
        let commits = meter.commits_per_job(self.runs.into()).await;
        let ms = |sum: Duration| round((sum / self.runs).as_secs_f64() * 1e3);
        let figures = json!({
            "connect_ms": ms(sum.connect),
            "start_to_first_job_ms": ms(sum.first_job),
            "shutdown_ms": ms(sum.shutdown),
            "idle_start_stop_ms": ms(sum.idle),
            "total_ms": ms(sum.connect + sum.first_job + sum.shutdown),
        });
        let settings = json!({ "runs": self.runs });
        Ok(Finding::new("startup", Settling::default(), (settings, figures)).costing(costs, commits))
    }
}

/// A process's way: connect, start a worker that finds one job waiting, stop, disconnect.
async fn one_run(place: &Place) -> Outcome<Parts> {
    let began = Instant::now();
    let client = open::create(&place.url).await?;
    let connect = began.elapsed();
    let (crew, mut arrived) =
        Crew::start(std::slice::from_ref(&client), &Team::new(QUEUE, 1), (0, JobId(i64::MAX))).await?;
    let waiting = arrived.recv();
    let arrival = tokio::time::timeout(Duration::from_secs(30), waiting).await.ok().flatten();
    if arrival.is_none() {
        return Err(Failure::failed("stalled", "the waiting job did not start within 30 s"));
    }
    let first_job = crew.started.elapsed();
    let mut shutdown = crew.stop().await;
    let closing = Instant::now();
    client.close().await;
    shutdown += closing.elapsed();
    Ok(Parts { connect, first_job, shutdown, idle: idle_run(place).await? })
}

/// A worker that finds nothing to do: started and stopped, the client's connection being there.
async fn idle_run(place: &Place) -> Outcome<Duration> {
    let client = open::create(&place.url).await?;
    let began = Instant::now();
    let (crew, _pings) =
        Crew::start(std::slice::from_ref(&client), &Team::new(QUEUE, 1), (0, JobId(i64::MAX))).await?;
    crew.stop().await;
    let took = began.elapsed();
    client.close().await;
    Ok(took)
}
