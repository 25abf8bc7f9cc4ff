use crate::{
    finding::Finding,
    jobs::Parcel,
    measure::round,
    meter::Meter,
    options::QUEUE,
    store::{connect, connect_each},
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use windlass::{Client, Context, IntoJob, JobId, NewJob, Result};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Latencies, MeasuredStore, per_second},
    progress::Progress,
};

const CLIENTS: usize = 2;
/// How many jobs run at once.
const CONCURRENCY: usize = 100;
/// How many jobs are enqueued at a time.
const BATCH: u64 = 10_000;
/// How long whoever waits for a job does so.
const PATIENCE: Duration = Duration::from_secs(300);

/// Many wait, each for a job of its own, while a worker runs them: how long after a handler returned whoever waits for its job is told.
#[derive(clap::Args)]
pub(crate) struct Waiters {
    /// How many jobs, each of which somebody waits for
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jobs: u64,
}

/// When the handler of each job returned.
type Returned = Arc<Mutex<HashMap<JobId, Instant>>>;

impl Waiters {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let waiters = self.begin(&client).await?;
        let beside = connect_each(&store.url, 1).await?;
        let returned = Returned::default();
        let began = Instant::now();
        let settings = WorkerSettings { concurrency: CONCURRENCY, settling: Settling::default() };
        let noted = Arc::clone(&returned);
        let handler = move |_: Parcel, context: Context| {
            noted.lock().unwrap_or_else(PoisonError::into_inner).insert(context.id(), Instant::now());
            async {}
        };
        let worker = settings.builder(&beside[0]).handle(handler).start().await?;
        let told = told(waiters, Progress::new("told", self.jobs, globals.json)).await?;
        let took = began.elapsed();
        worker.shutdown().await;
        beside[0].close().await;
        client.close().await;
        let (worked, after) = compared(&told, &returned, began)?;
        let costs = meter.costs(&meter.read().await, self.jobs);
        let commits = meter.commits_per_job(self.jobs).await;
        let figures = json!({
            "worked_seconds": round(worked.as_secs_f64()),
            "told_seconds": round(took.as_secs_f64()),
            "told_per_second": per_second(self.jobs, took),
            "told_after": after.report(),
        });
        let options = json!({ "jobs": self.jobs });
        Ok(Finding::new("waiters", settings.settling, (options, figures)).costing(costs, commits))
    }

    /// Enqueues the jobs, and has somebody wait for each of them.
    async fn begin(&self, client: &Client) -> Outcome<JoinSet<Result<Option<(JobId, Instant)>>>> {
        let mut waiters = JoinSet::new();
        for first in (0..self.jobs).step_by(BATCH as usize) {
            let numbers = first..self.jobs.min(first + BATCH);
            let job = |id| Ok(Parcel { id, text: String::new() }.into_job()?.with_queue(QUEUE));
            let jobs: Vec<NewJob> = numbers.map(job).collect::<Result<_>>()?;
            for id in client.enqueue_many(jobs).await? {
                let client = client.clone();
                waiters.spawn(async move {
                    let ended = client.wait(id, PATIENCE).await?;
                    Ok(ended.map(|_| (id, Instant::now())))
                });
            }
        }
        Ok(waiters)
    }
}

/// When each was told.
async fn told(
    mut waiters: JoinSet<Result<Option<(JobId, Instant)>>>,
    mut progress: Progress,
) -> Outcome<Vec<(JobId, Instant)>> {
    let mut told = Vec::with_capacity(waiters.len());
    while let Some(waited) = waiters.join_next().await {
        let waited = waited.map_err(|error| Failure::failed("internal", error.to_string()))??;
        told.push(waited.ok_or_else(|| {
            let message = format!("a job was not told of within {} s", PATIENCE.as_secs());
            Failure::failed("stalled", message)
        })?);
        progress.reach(told.len() as u64);
    }
    Ok(told)
}

/// How long all handlers took, and how long after each of them returned its job was told of.
fn compared(
    told: &[(JobId, Instant)],
    returned: &Returned,
    began: Instant,
) -> Outcome<(Duration, Latencies)> {
    let returned = returned.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut after, mut last) = (Latencies::new(), began);
    for (id, at) in told {
        let Some(returned) = returned.get(id) else {
            let message = format!("job {id} did not run, and was told of as ended");
            return Err(Failure::failed("internal", message));
        };
        last = last.max(*returned);
        after.record(at.saturating_duration_since(*returned));
    }
    Ok((last - began, after))
}
