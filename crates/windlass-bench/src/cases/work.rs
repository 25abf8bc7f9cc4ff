use crate::{
    finding::Finding,
    load::{Load, fill, sums},
    measure::round,
    meter::Meter,
    options::{MAX_CONCURRENCY, MAX_JOBS, QUEUE, batch_of},
    store::connect,
    worked::{self, Worked},
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::{Value, json};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};
use windlass_cli::{
    failure::Outcome,
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second},
    progress::Progress,
};

/// How many connections enqueue.
const CLIENTS: usize = 2;
/// How long a calculation is repeated alone, to learn how long it takes.
const CALIBRATION: Duration = Duration::from_millis(50);

/// Works jobs that wait or calculate.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// How long each job waits, in milliseconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    sleep_ms: u64,
    /// How many sines and cosines each job calculates instead
    #[arg(long, conflicts_with = "sleep_ms", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    cpu: Option<u64>,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How many jobs
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How the worker settles what it handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Work {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let mut meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let load = match self.cpu {
            Some(count) => Load::Sums { count },
            None => Load::Nap { ms: self.sleep_ms },
        };
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let (filled, _) = fill(&client, &work, load, globals.json).await?;
        client.close().await;
        meter.restart().await;
        let settings = WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling };
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let progress = &mut Progress::new("completed", self.jobs, globals.json);
        let Worked { took, per_second: per_each_second, end } =
            worked::work(store, (1, settings), expected, &meter, progress).await?;
        let costs = meter.costs(&end, self.jobs);
        let commits = meter.commits_per_job(self.jobs).await;
        let rate = per_second(self.jobs, took);
        let most = self.theoretical_per_second();
        let figures = json!({
            "completed_seconds": round(took.as_secs_f64()),
            "completed_per_second": rate,
            "theoretical_per_second": round(most),
            "of_theoretical_percent": round(rate as f64 / most * 100.0),
            "per_second": per_each_second,
        });
        Ok(Finding::new("work", self.settling, (self.settings(), figures)).costing(costs, commits))
    }

    fn settings(&self) -> Value {
        match self.cpu {
            Some(count) => json!({ "cpu": count, "concurrency": self.concurrency, "jobs": self.jobs }),
            None => json!({ "sleep_ms": self.sleep_ms, "concurrency": self.concurrency, "jobs": self.jobs }),
        }
    }

    /// What a queue that costs nothing would reach: all slots wait all the time, or all cores calculate all
    /// the time.
    fn theoretical_per_second(&self) -> f64 {
        let Some(count) = self.cpu else { return f64::from(self.concurrency) * 1e3 / self.sleep_ms as f64 };
        let (began, mut best) = (Instant::now(), f64::MAX);
        while best == f64::MAX || began.elapsed() < CALIBRATION {
            let one = Instant::now();
            black_box(sums(count));
            best = best.min(one.elapsed().as_secs_f64().max(1e-9));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.min(self.concurrency as usize) as f64 / best
    }
}
