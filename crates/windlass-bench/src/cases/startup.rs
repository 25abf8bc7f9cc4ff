use crate::{
    finding::Finding,
    measure::round,
    meter::Meter,
    options::QUEUE,
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass::{Client, IntoJob, JobId};
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::{Expected, MeasuredStore, Ping, PingStarts},
    open,
};

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
    pub(crate) async fn measure(&self, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = open::create(&store.url).await?;
        client.migrate().await?;
        let mut sum = Parts::default();
        for run in 0..self.runs {
            client.enqueue(Ping { id: run.into() }.into_job()?.with_queue(QUEUE)).await?;
            let parts = one_run(store).await?;
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

/// What a process does: connect, start a worker that finds one job waiting, stop, disconnect.
async fn one_run(store: &MeasuredStore) -> Outcome<Parts> {
    let began = Instant::now();
    let client = open::create(&store.url).await?;
    let connect = began.elapsed();
    let (workers, mut starts) = start(&client).await?;
    let waiting = starts.recv();
    let start = tokio::time::timeout(Duration::from_secs(30), waiting).await.ok().flatten();
    if start.is_none() {
        return Err(Failure::failed("stalled", "the waiting job did not start within 30 s"));
    }
    let first_job = workers.started().elapsed();
    let mut shutdown = workers.stop().await;
    let closing = Instant::now();
    client.close().await;
    shutdown += closing.elapsed();
    Ok(Parts { connect, first_job, shutdown, idle: idle_run(store).await? })
}

/// Starts and stops a worker that finds nothing to do, on a client that is connected already.
async fn idle_run(store: &MeasuredStore) -> Outcome<Duration> {
    let client = open::create(&store.url).await?;
    let began = Instant::now();
    let (workers, _starts) = start(&client).await?;
    workers.stop().await;
    let took = began.elapsed();
    client.close().await;
    Ok(took)
}

async fn start(client: &Client) -> Outcome<(Workers, PingStarts)> {
    let settings = WorkerSettings { concurrency: 1, settling: Settling::default() };
    let expected = Expected { jobs: 0, first: JobId(i64::MAX) };
    Workers::start(std::slice::from_ref(client), settings, expected).await
}
