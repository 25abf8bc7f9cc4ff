//! Graphile Worker's port to Rust.

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker as Runner,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use peers::{Command, Job, Producer, Settings, System, Tally, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx_of_graphile::postgres::{PgPool, PgPoolOptions};
use std::{ops::Range, process::ExitCode, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

const SCHEMA: &str = "graphile_worker";
/// Handlers at once of a tuned worker, and the jobs of its local queue: those of the project's own throughput benchmark.
const CONCURRENCY: usize = 500;
const LOCAL_QUEUE: usize = 5_000;
/// The delay before completions are written together, of that benchmark and of the manual.
const COMPLETE_DELAY: Duration = Duration::from_millis(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const CONNECTIONS: u32 = 20;

fn main() -> ExitCode {
    peers::run::<Graphile>()
}

struct Graphile {
    pool: PgPool,
}

/// The tally, where the handler finds it.
#[derive(Clone)]
struct Counted(Arc<Tally>);

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Count(Job);

impl TaskHandler for Count {
    const IDENTIFIER: &'static str = "count";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let tally = context.get_ext::<Counted>().ok_or("the worker has no tally")?;
        tally.0.handle(self.0.id).await;
        Ok::<(), &'static str>(())
    }
}

impl System for Graphile {
    const PACKAGE: &'static str = "graphile_worker";
    type Producer = Utils;
    type Worker = Running;

    async fn open(settings: &Settings) -> anyhow::Result<Self> {
        // Only the producers connect here; a worker gets a pool of its own.
        let count = settings.clients.max(2) as u32;
        let pool =
            PgPoolOptions::new().max_connections(count).min_connections(count).connect(&settings.url).await?;
        Ok(Self { pool })
    }

    async fn install(&self) -> anyhow::Result<()> {
        Ok(WorkerUtils::new(self.pool.clone(), SCHEMA).migrate().await?)
    }

    async fn producers(&self, count: usize) -> anyhow::Result<Vec<Utils>> {
        let mut connected = Vec::new();
        for _ in 0..count {
            connected.push(self.pool.acquire().await?);
        }
        Ok((0..count).map(|_| Utils(WorkerUtils::new(self.pool.clone(), SCHEMA))).collect())
    }

    async fn worker(&self, settings: &Settings, tally: Arc<Tally>) -> anyhow::Result<Running> {
        let options = WorkerOptions::default().schema(SCHEMA).listen_os_shutdown_signals(false);
        let options = options.database_url(&settings.url).max_pg_conn(CONNECTIONS);
        let options = tune(options.add_extension(Counted(tally)).define_job::<Count>(), settings);
        Ok(Running { runner: Arc::new(options.init().await?), task: None })
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let count = sqlx_of_graphile::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs");
        let count: i64 = count.fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }

    fn describe(settings: &Settings) -> Value {
        match settings.command {
            Command::Enqueue => json!({
                "clients": settings.clients,
                "connections": settings.clients.max(2),
                "call": if settings.batch == 1 { "add_job" } else { "add_raw_jobs" },
                "batch": settings.batch,
            }),
            Command::Drain if !settings.tuned => json!({
                "defaults": "concurrency: CPUs, poll_interval 1 s, no local queue, each completion by itself",
                "connections": CONNECTIONS,
                "processes": settings.processes,
            }),
            Command::Latency => json!({
                "concurrency": 10, "connections": CONNECTIONS,
                "notifications": true, "local_queue": 0, "complete_job_batch_delay_ms": Value::Null,
            }),
            _ => json!({
                "concurrency": concurrency(settings), "local_queue": local_queue(settings),
                "complete_job_batch_delay_ms": COMPLETE_DELAY.as_millis() as u64,
                "poll_interval_ms": POLL_INTERVAL.as_millis() as u64,
                "connections": CONNECTIONS, "processes": settings.processes, "batch": settings.batch,
            }),
        }
    }
}

fn concurrency(settings: &Settings) -> usize {
    if settings.command == Command::Work { settings.concurrency } else { CONCURRENCY }
}

/// No process takes all jobs of a short run to itself.
fn local_queue(settings: &Settings) -> usize {
    LOCAL_QUEUE / settings.processes
}

fn tune(options: WorkerOptions, settings: &Settings) -> WorkerOptions {
    match settings.command {
        Command::Drain if !settings.tuned => options,
        // Notifications wake a worker at once; a local queue and batched completions trade latency away.
        Command::Latency => options.concurrency(10),
        _ => options
            .concurrency(concurrency(settings))
            .poll_interval(POLL_INTERVAL)
            .complete_job_batch_delay(COMPLETE_DELAY)
            .local_queue(LocalQueueConfig::default().with_size(local_queue(settings))),
    }
}

struct Utils(WorkerUtils);

impl Producer for Utils {
    async fn one(&mut self, id: u64) -> anyhow::Result<()> {
        self.0.add_job(Count(Job { id }), JobSpec::default()).await?;
        Ok(())
    }

    async fn many(&mut self, ids: Range<u64>) -> anyhow::Result<()> {
        let job = |id| RawJobSpec {
            identifier: Count::IDENTIFIER.to_owned(),
            payload: json!({ "id": id }),
            spec: JobSpec::default(),
        };
        self.0.add_raw_jobs(&ids.map(job).collect::<Vec<_>>()).await?;
        Ok(())
    }
}

struct Running {
    runner: Arc<Runner>,
    task: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Worker for Running {
    async fn start(&mut self) -> anyhow::Result<()> {
        let runner = Arc::clone(&self.runner);
        self.task = Some(tokio::spawn(async move { Ok(runner.run().await?) }));
        Ok(())
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.runner.request_shutdown();
        match self.task {
            Some(task) => task.await?,
            None => Ok(()),
        }
    }
}
