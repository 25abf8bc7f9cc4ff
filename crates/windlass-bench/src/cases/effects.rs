use crate::{
    delays::Delays,
    finding::Finding,
    jobs::Wait,
    measure::{open_session, round},
    meter::Meter,
    options::{MAX_CONCURRENCY, MAX_JOBS, QUEUE},
    store::connect,
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use windlass::{Client, Context, IntoJob, StoreKind};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{MeasuredStore, per_second},
    progress::Progress,
};

/// What the jobs write to.
const TABLE: &str = "windlass_bench_effect";
/// How many jobs one call enqueues.
const BATCH: u64 = 10_000;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Jobs that write a row and are completed by the same transaction of PostgreSQL
#[derive(clap::Args)]
pub(crate) struct Effects {
    /// How many jobs
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many jobs run at once, each with a connection of its own
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// Lets the worker settle the jobs instead, to compare with
    #[arg(long)]
    plain: bool,
}

/// What the handlers share.
struct Shared {
    client: Client,
    complete: bool,
    /// As many as jobs run at once.
    sessions: Mutex<Vec<tokio_postgres::Client>>,
    calls: Delays,
    left: AtomicU64,
    done: Notify,
    /// Why the first handler failed that did.
    failed: Mutex<Option<String>>,
}

impl Shared {
    /// The row, and the end of the job with it.
    async fn run(&self, context: &Context) -> Result<(), Error> {
        let session = lock(&self.sessions).pop();
        let mut session = session.ok_or("fewer sessions than handlers")?;
        let tx = session.transaction().await?;
        tx.execute(&format!("INSERT INTO {TABLE} VALUES ($1)"), &[&context.id().0]).await?;
        if self.complete {
            let began = Instant::now();
            self.client.complete_in(&tx, context).await?;
            self.calls.record(context.id().0.unsigned_abs(), began.elapsed());
        }
        tx.commit().await?;
        lock(&self.sessions).push(session);
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Ok(())
    }
}

impl Effects {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        if StoreKind::of(&store.url)? != StoreKind::Postgres {
            return Err(Failure::usage(
                "invalid_option",
                "only PostgreSQL has transactions to complete jobs in; name one with --store",
            ));
        }
        let mut meter = Meter::open(store).await;
        let client = connect(store, 2).await?;
        client.migrate().await?;
        for first in (0..self.jobs).step_by(BATCH as usize) {
            let jobs =
                (first..self.jobs.min(first + BATCH)).map(|_| Ok(Wait {}.into_job()?.with_queue(QUEUE)));
            client.enqueue_many(jobs.collect::<windlass::Result<Vec<_>>>()?).await?;
        }
        let sessions = self.sessions(&store.url).await.map_err(|error| unavailable(&error))?;
        let shared = Arc::new(Shared {
            client: client.clone(),
            complete: !self.plain,
            sessions: Mutex::new(sessions),
            calls: Delays::new(),
            left: AtomicU64::new(self.jobs),
            done: Notify::new(),
            failed: Mutex::new(None),
        });
        meter.restart().await;
        let (began, handled) = (Instant::now(), Arc::clone(&shared));
        let handler = move |_: Wait, context: Context| {
            let shared = Arc::clone(&handled);
            async move {
                let ended = shared.run(&context).await;
                if let Err(error) = &ended {
                    lock(&shared.failed).get_or_insert_with(|| error.to_string());
                }
                ended
            }
        };
        let settings =
            WorkerSettings { concurrency: self.concurrency as usize, settling: Settling::default() };
        let worker = settings.builder(&client).handle(handler).start().await?;
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        while shared.left.load(Ordering::Relaxed) > 0 {
            let look = tokio::time::sleep(Duration::from_millis(100));
            tokio::select! { () = shared.done.notified() => {}, () = look => {} }
            progress.reach(self.jobs - shared.left.load(Ordering::Relaxed));
            if let Some(error) = lock(&shared.failed).as_ref() {
                return Err(unavailable(error));
            }
        }
        let took = began.elapsed();
        drop(progress);
        worker.shutdown().await;
        let costs = meter.costs(&meter.read().await, self.jobs);
        let session = lock(&shared.sessions).pop();
        if let Some(session) = session {
            session
                .batch_execute(&format!("DROP TABLE {TABLE}"))
                .await
                .map_err(|error| unavailable(&error))?;
        }
        client.close().await;
        let figures = json!({
            "completed_seconds": round(took.as_secs_f64()),
            "completed_per_second": per_second(self.jobs, took),
            "complete_in_call": shared.calls.sum().report(),
        });
        let options = json!({ "jobs": self.jobs, "concurrency": self.concurrency, "plain": self.plain });
        Ok(Finding::new("effects", settings.settling, (options, figures)).costing(costs, None))
    }

    /// A session for each handler, and the table that they write to.
    async fn sessions(&self, url: &str) -> Result<Vec<tokio_postgres::Client>, tokio_postgres::Error> {
        let mut sessions = Vec::new();
        for _ in 0..self.concurrency {
            sessions.push(open_session(url).await?);
        }
        let create = format!("DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} (job bigint PRIMARY KEY)");
        sessions[0].batch_execute(&create).await?;
        Ok(sessions)
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unavailable(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed("unavailable", format!("cannot write beside the jobs: {error}"))
}
