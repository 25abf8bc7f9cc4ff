use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::{HeldSnapshot, round},
    meter::{Meter, Reading},
    options::{MAX_CONCURRENCY, MAX_JOBS, MAX_PAYLOAD, QUEUE, batch_of},
    processes::{Processes, Task},
    store::connect,
    worked::{self, Worked},
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use windlass_cli::{
    failure::Outcome,
    globals::Globals,
    measure::{Expected, Fill, Filled, MeasuredStore, per_second},
    progress::Progress,
};

/// Enqueues jobs without work, then works them. The costs are those of both; `drain_only` has those of working.
#[derive(clap::Args)]
pub(crate) struct Drain {
    /// How many jobs
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many jobs each worker runs at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How many workers each process has, with connections of their own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    workers: u32,
    /// Works in this many processes, started before the measurement, instead of in this one
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    processes: Option<u32>,
    /// How many connections enqueue
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// How many bytes of text each job carries
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MAX_PAYLOAD))]
    payload: u64,
    /// How many bytes each job returns as its result
    #[arg(long, default_value_t = 0, conflicts_with = "payload", value_parser = clap::value_parser!(u64).range(0..=MAX_PAYLOAD))]
    result_bytes: u64,
    /// Holds a snapshot open in another session during the whole measurement, as a long report would (PostgreSQL)
    #[arg(long)]
    hold_snapshot: bool,
    /// Commits do not wait for the disk: synchronous_commit=off, in SQLite synchronous=normal
    #[arg(long)]
    pub(super) async_commit: bool,
    /// How workers settle what they handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

/// How the jobs were worked.
struct Drained {
    took: Duration,
    per_second: Vec<u64>,
    /// The counters when the last job was settled.
    end: Reading,
    /// Of the worker processes.
    cpu_seconds: f64,
    peak_memory: Option<u64>,
}

impl Drain {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let held = match self.hold_snapshot {
            true => Some(HeldSnapshot::open(&store.url).await?),
            false => None,
        };
        let meter = Meter::open(store).await;
        let (begin, filled) = self.fill(globals, store, &meter).await?;
        let middle = meter.read().await;
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        let drained = match self.processes {
            None => self.in_this_process(store, &filled, &meter, &mut progress).await?,
            Some(processes) => self.in_processes(processes, store, &filled, &meter, &mut progress).await?,
        };
        drop((progress, held));
        let mut costs = self.costs(&begin, &drained);
        costs.insert("drain_only".to_owned(), self.costs(&middle, &drained).into());
        let commits = meter.commits_per_job(self.jobs).await;
        let figures = json!({
            "enqueued_seconds": round(filled.took.as_secs_f64()),
            "enqueued_per_second": per_second(self.jobs, filled.took),
            "completed_seconds": round(drained.took.as_secs_f64()),
            "completed_per_second": per_second(self.jobs, drained.took),
            "per_second": drained.per_second,
            "enqueue_call": filled.calls.report(),
        });
        Ok(Finding::new("drain", self.settling, (self.settings(), figures)).costing(costs, commits))
    }

    fn settings(&self) -> Value {
        json!({
            "jobs": self.jobs,
            "concurrency": self.concurrency,
            "workers": self.workers,
            "processes": self.processes.unwrap_or(1),
            "clients": self.clients,
            "batch": batch_of(self.payload),
            "payload": self.payload,
            "result_bytes": self.result_bytes,
            "hold_snapshot": self.hold_snapshot,
            "async_commit": self.async_commit,
        })
    }

    /// Enqueues, on connections that are closed afterwards: only then are all their commits reported. What the meter said before the
    /// first job: the schema is no cost of one.
    async fn fill(
        &self,
        globals: &Globals,
        store: &MeasuredStore,
        meter: &Meter,
    ) -> Outcome<(Reading, Filled)> {
        let client = connect(store, self.clients as usize).await?;
        client.migrate().await?;
        let begin = meter.read().await;
        let clients = self.clients as usize;
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(self.payload), clients };
        let load = match self.result_bytes as usize {
            0 => Load::carrying(self.payload as usize),
            bytes => Load::Question { bytes },
        };
        let (filled, _) = fill(&client, &work, load, globals.json).await?;
        client.close().await;
        Ok((begin, filled))
    }

    fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling }
    }

    async fn in_this_process(
        &self,
        store: &MeasuredStore,
        filled: &Filled,
        meter: &Meter,
        progress: &mut Progress,
    ) -> Outcome<Drained> {
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let workers = (self.workers, self.worker_settings());
        let Worked { took, per_second, end } =
            worked::work(store, workers, expected, meter, progress).await?;
        Ok(Drained { took, per_second, end, cpu_seconds: 0.0, peak_memory: None })
    }

    async fn in_processes(
        &self,
        processes: u32,
        store: &MeasuredStore,
        filled: &Filled,
        meter: &Meter,
        progress: &mut Progress,
    ) -> Outcome<Drained> {
        let task = Task {
            url: store.url.clone(),
            settings: self.worker_settings(),
            workers: self.workers as usize,
            jobs: self.jobs,
            first: filled.first,
        };
        let done = Processes::start(processes as usize, &task).await?.work(progress).await?;
        Ok(Drained {
            took: done.took,
            per_second: done.per_second,
            end: meter.read().await,
            cpu_seconds: done.cpu_seconds,
            peak_memory: done.peak_memory,
        })
    }

    fn costs(&self, from: &Reading, drained: &Drained) -> Map<String, Value> {
        let mut costs = drained.end.since(from, self.jobs, drained.cpu_seconds);
        if let Some(bytes) = drained.peak_memory {
            // That of the largest, when several processes work.
            costs.insert("peak_memory_bytes".to_owned(), bytes.into());
        }
        costs
    }
}
