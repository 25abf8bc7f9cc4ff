//! A queue with a limit beside the same queue without one, in one run.

use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::round,
    meter::Meter,
    options::{MAX_CONCURRENCY, MAX_JOBS, QUEUE, batch_of},
    store::connect,
    worked,
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::json;
use std::time::Duration;
use windlass::{Client, QueueLimits, RateLimit};
use windlass_cli::{
    failure::Outcome,
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second},
    progress::Progress,
};

/// How many connections enqueue.
const CLIENTS: usize = 2;

/// Works the same jobs without limits and under a limit. The costs are those of both.
#[derive(clap::Args)]
pub(crate) struct Limited {
    /// How many jobs of the queue may run at once, over all workers
    #[arg(long, conflicts_with = "rate", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(QueueLimits::MAX_CONCURRENCY)))]
    limit: u32,
    /// How many of its jobs may start in each second instead
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(RateLimit::MAX_COUNT)))]
    rate: Option<u32>,
    /// How long each job waits, in milliseconds; 0: not at all
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    sleep_ms: u64,
    /// How many jobs each worker runs at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How many workers, with connections of their own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    workers: u32,
    /// Nothing beside them: the jobs without a limit are left out
    #[arg(long)]
    alone: bool,
    /// How many jobs, each time
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How workers settle what they handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Limited {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let free = match self.alone {
            true => None,
            false => Some(self.work(globals, store, &client, &meter).await?),
        };
        client.limit(QUEUE, &self.limits()).await?;
        let limited = self.work(globals, store, &client, &meter).await;
        client.limit(QUEUE, &QueueLimits::default()).await?;
        let limited = limited?;
        client.close().await;
        let costs = meter.costs(&meter.read().await, (1 + u64::from(free.is_some())) * self.jobs);
        let settings = json!({
            "limit": self.rate.is_none().then_some(self.limit), "rate": self.rate, "sleep_ms": self.sleep_ms,
            "concurrency": self.concurrency, "workers": self.workers, "jobs": self.jobs,
        });
        let mut figures = json!({
            "completed_per_second": per_second(self.jobs, limited),
        });
        if let Some(free) = free {
            figures["unlimited_per_second"] = json!(per_second(self.jobs, free));
            figures["of_unlimited_percent"] =
                round(free.as_secs_f64() / limited.as_secs_f64() * 100.0).into();
        }
        if let Some(least) = self.least_seconds() {
            figures["of_allowed_percent"] = round(least / limited.as_secs_f64() * 100.0).into();
        }
        Ok(Finding::new("limited", self.settling, (settings, figures)).costing(costs, None))
    }

    fn limits(&self) -> QueueLimits {
        match self.rate {
            Some(count) => QueueLimits::default().with_rate(RateLimit::new(count, Duration::from_secs(1))),
            None => QueueLimits::default().with_concurrency(self.limit),
        }
    }

    /// The seconds that the limit alone makes it take; none: jobs without work may be as fast as they like.
    fn least_seconds(&self) -> Option<f64> {
        match (self.rate, self.sleep_ms) {
            // Those of the first second may all start at once.
            (Some(rate), _) => Some(self.jobs.saturating_sub(rate.into()) as f64 / f64::from(rate)),
            (None, 0) => None,
            (None, ms) => Some(self.jobs as f64 * ms as f64 / 1e3 / f64::from(self.limit)),
        }
    }

    /// Enqueues, and works that. How long the work took.
    async fn work(
        &self,
        globals: &Globals,
        store: &MeasuredStore,
        client: &Client,
        meter: &Meter,
    ) -> Outcome<Duration> {
        let load = if self.sleep_ms == 0 { Load::Noop } else { Load::Nap { ms: self.sleep_ms } };
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let (filled, _) = fill(client, &work, load, globals.json).await?;
        let settings = WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling };
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let progress = &mut Progress::new("completed", self.jobs, globals.json);
        Ok(worked::work(store, (self.workers, settings), expected, meter, progress).await?.took)
    }
}
