//! Awa, on its queue storage (the default engine since 0.6).

use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, PartitionedQueue, QueueConfig, QueueStorage,
    QueueStorageConfig, insert_with, migrations,
};
use peers::{Command, Job, Producer, Settings, System, Tally, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx_of_awa::postgres::{PgPool, PgPoolOptions};
use std::{ops::Range, process::ExitCode, sync::Arc, time::Duration};

const QUEUE: &str = "bench";
/// Physical queues behind the queue in tuned scenarios; the manual calls this the first lever of a hot workload.
const PARTITIONS: usize = 2;
/// Handlers at once of a tuned worker, over all partitions: the manual's size for no-op jobs.
const WORKERS: u32 = 1_024;
const CONNECTIONS: u32 = 20;
/// How long running jobs may take once the worker stops.
const GRACE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    peers::run::<Awa>()
}

struct Awa {
    pool: PgPool,
    store: Arc<QueueStorage>,
    queue: PartitionedQueue,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Count(Job);

impl JobArgs for Count {
    fn kind() -> &'static str {
        "count"
    }
}

impl System for Awa {
    const PACKAGE: &'static str = "awa";
    type Producer = Clerk;
    type Worker = Running;

    async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let count = settings.clients.max(CONNECTIONS as usize) as u32;
        let pool = PgPoolOptions::new().max_connections(count).connect(&settings.url).await?;
        let store = Arc::new(QueueStorage::new(QueueStorageConfig::default())?);
        Ok(Self { pool, store, queue: PartitionedQueue::new(QUEUE, partitions(settings))? })
    }

    async fn install(&self) -> anyhow::Result<()> {
        migrations::run(&self.pool).await?;
        // The first worker of a new database would do so; here jobs come before it.
        Ok(self.store.install(&self.pool).await?)
    }

    async fn producers(&self, count: usize) -> anyhow::Result<Vec<Clerk>> {
        let mut connected = Vec::new();
        for _ in 0..count {
            connected.push(self.pool.acquire().await?);
        }
        let clerk =
            |_| Clerk { pool: self.pool.clone(), store: Arc::clone(&self.store), queue: self.queue.clone() };
        Ok((0..count).map(clerk).collect())
    }

    async fn worker(&self, settings: &Settings, tally: Arc<Tally>) -> anyhow::Result<Running> {
        let config = QueueConfig {
            max_workers: workers(settings),
            deadline_duration: deadline(settings),
            ..QueueConfig::default()
        };
        let client = Client::builder(self.pool.clone()).partitioned_queue(&self.queue, config);
        let client = client.register::<Count, _, _>(move |job, _context| {
            let tally = Arc::clone(&tally);
            async move {
                tally.handle(job.0.id).await;
                Ok(JobResult::Completed)
            }
        });
        Ok(Running(client.build()?))
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let mut unfinished = 0;
        for queue in self.queue.physical_queues() {
            let counts = self.store.queue_counts(&self.pool, queue).await?;
            unfinished += counts.available + counts.running;
        }
        Ok(unfinished.unsigned_abs())
    }

    fn describe(settings: &Settings) -> Value {
        match settings.command {
            Command::Enqueue => json!({
                "clients": settings.clients,
                "call": if settings.batch == 1 { "insert_with" } else { "QueueStorage::enqueue_params_copy" },
                "batch": settings.batch, "partitions": partitions(settings),
            }),
            _ => json!({
                "storage": "queue_storage, defaults", "partitions": partitions(settings),
                "max_workers_per_partition": workers(settings),
                "deadline_seconds": deadline(settings).as_secs(), "claimers": 1, "claim_batch_size": 512,
                "poll_interval_ms": 200, "notifications": true, "completion_batch": 512, "completion_flush_ms": 1,
                "connections": CONNECTIONS, "processes": settings.processes, "batch": settings.batch,
            }),
        }
    }
}

fn is_hot(settings: &Settings) -> bool {
    match settings.command {
        Command::Drain => settings.tuned,
        Command::Mixed => true,
        // Single jobs keep the one ordered queue that is the default.
        Command::Enqueue => settings.batch > 1,
        Command::Work | Command::Latency => false,
    }
}

/// Attempts without a deadline take the shorter path through the store; heartbeats still rescue those of a dead worker.
fn deadline(settings: &Settings) -> Duration {
    match settings.command {
        Command::Drain if !settings.tuned => QueueConfig::default().deadline_duration,
        _ => Duration::ZERO,
    }
}

fn partitions(settings: &Settings) -> usize {
    if is_hot(settings) { PARTITIONS } else { 1 }
}

fn workers(settings: &Settings) -> u32 {
    match settings.command {
        Command::Work => settings.concurrency as u32,
        _ if is_hot(settings) => WORKERS / PARTITIONS as u32,
        _ => QueueConfig::default().max_workers,
    }
}

struct Clerk {
    pool: PgPool,
    store: Arc<QueueStorage>,
    queue: PartitionedQueue,
}

impl Clerk {
    fn route(&self, id: u64) -> InsertOpts {
        self.queue.route_opts_by_index(InsertOpts::default(), id as usize)
    }
}

impl Producer for Clerk {
    async fn one(&mut self, id: u64) -> anyhow::Result<()> {
        let opts = self.route(id);
        insert_with(&self.pool, &Count(Job { id }), opts).await?;
        Ok(())
    }

    async fn many(&mut self, ids: Range<u64>) -> anyhow::Result<()> {
        let job = |id| InsertParams {
            kind: Count::kind().to_owned(),
            args: json!({ "id": id }),
            opts: self.route(id),
        };
        self.store.enqueue_params_copy(&self.pool, &ids.map(job).collect::<Vec<_>>()).await?;
        Ok(())
    }
}

struct Running(Client);

impl Worker for Running {
    async fn start(&mut self) -> anyhow::Result<()> {
        Ok(self.0.start().await?)
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.0.shutdown(GRACE).await;
        Ok(())
    }
}
