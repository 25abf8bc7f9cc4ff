//! A queue whose jobs have keys: what turns and limits of keys cost, and what one busy key costs the others.

use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::round,
    meter::Meter,
    options::{MAX_CONCURRENCY, MAX_JOBS, QUEUE, batch_of},
    store::{connect, connect_each, next_id},
    worked,
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Client, KeyLimit, QueueLimits};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second, ping},
    progress::Progress,
};

/// How many connections enqueue.
const CLIENTS: usize = 2;
/// How many jobs are worked before the first sample that is measured.
const WARM_UP: u64 = 200;
/// The time between two samples of the quiet key.
const GAP: Duration = Duration::from_millis(10);
const QUIET: &str = "quiet";

/// Works jobs without work in turns of their keys, beside the same without keys; with --noisy, how long the jobs of one key take to start beside
/// a backlog of another.
#[derive(clap::Args)]
pub(crate) struct Keys {
    /// How many keys; each has as many jobs as the others
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    keys: u64,
    /// How many jobs of a key may run at once
    #[arg(long, conflicts_with = "serial", value_parser = clap::value_parser!(u32).range(1..=i64::from(QueueLimits::MAX_CONCURRENCY)))]
    limit: Option<u32>,
    /// The jobs of a key run one after the other, in order
    #[arg(long)]
    serial: bool,
    /// Nothing beside them: the jobs without keys are left out
    #[arg(long, conflicts_with = "noisy")]
    alone: bool,
    /// How many jobs, each time
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// So many single jobs of one key beside the jobs of another, and before that alone
    #[arg(long, value_name = "SAMPLES", conflicts_with = "keys", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    noisy: Option<u64>,
    /// How long each job of the other key waits then, in milliseconds; 0: not at all
    #[arg(long, requires = "noisy", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    sleep_ms: u64,
    /// How many jobs each worker runs at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How many workers, with connections of their own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    workers: u32,
    /// How workers settle what they handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Keys {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        if self.keys > self.jobs {
            let message =
                format!("{} jobs are too few for {} keys; choose more --jobs", self.jobs, self.keys);
            return Err(Failure::usage("invalid_option", message));
        }
        let meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let measured = match self.noisy {
            Some(samples) => self.beside_another(globals, (store, &meter), &client, samples).await,
            None => self.in_turns(globals, (store, &meter), &client).await,
        };
        client.unlimit_keys(QUEUE).await?;
        let (figures, worked) = measured?;
        client.close().await;
        let costs = meter.costs(&meter.read().await, worked);
        Ok(Finding::new("keys", self.settling, (self.settings(), figures)).costing(costs, None))
    }

    fn settings(&self) -> Value {
        json!({
            "keys": self.noisy.is_none().then_some(self.keys), "limit": self.limit, "serial": self.serial,
            "samples": self.noisy, "sleep_ms": self.noisy.map(|_| self.sleep_ms), "jobs": self.jobs,
            "concurrency": self.concurrency, "workers": self.workers,
        })
    }

    fn limit(&self) -> KeyLimit {
        match (self.serial, self.limit) {
            (true, _) => KeyLimit::serial(),
            (false, Some(limit)) => KeyLimit::default().with_concurrency(limit),
            (false, None) => KeyLimit::default(),
        }
    }

    /// The same jobs without keys and with them.
    async fn in_turns(
        &self,
        globals: &Globals,
        (store, meter): (&MeasuredStore, &Meter),
        client: &Client,
    ) -> Outcome<(Value, u64)> {
        let free = match self.alone {
            true => None,
            false => Some(self.work(globals, (store, meter), client, Load::Noop).await?),
        };
        client.limit_keys(QUEUE, self.limit()).await?;
        let load = Load::Keyed { keys: self.keys };
        let (enqueued, took) = self.work(globals, (store, meter), client, load).await?;
        let mut figures = json!({
            "completed_per_second": per_second(self.jobs, took),
            "enqueued_per_second": per_second(self.jobs, enqueued),
        });
        let Some((enqueued_free, free)) = free else { return Ok((figures, self.jobs)) };
        let percent =
            |free: Duration, keyed: Duration| round(free.as_secs_f64() / keyed.as_secs_f64() * 100.0);
        figures["without_keys_per_second"] = json!(per_second(self.jobs, free));
        figures["of_without_keys_percent"] = json!(percent(free, took));
        figures["of_enqueued_without_keys_percent"] = json!(percent(enqueued_free, enqueued));
        Ok((figures, 2 * self.jobs))
    }

    /// Enqueues, and works that. How long both took.
    async fn work(
        &self,
        globals: &Globals,
        (store, meter): (&MeasuredStore, &Meter),
        client: &Client,
        load: Load,
    ) -> Outcome<(Duration, Duration)> {
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let (filled, _) = fill(client, &work, load, globals.json).await?;
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let workers = (self.workers, self.worker_settings());
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        let worked = worked::work(store, workers, expected, meter, &mut progress).await?;
        Ok((filled.took, worked.took))
    }

    /// Single jobs of a key, alone and beside the backlog of another.
    async fn beside_another(
        &self,
        globals: &Globals,
        (store, meter): (&MeasuredStore, &Meter),
        client: &Client,
        samples: u64,
    ) -> Outcome<(Value, u64)> {
        client.limit_keys(QUEUE, self.limit()).await?;
        let clients = connect_each(&store.url, 1).await?;
        let expected = Expected { jobs: u64::MAX, first: next_id(client).await? };
        let (workers, mut starts) = Workers::start(&clients, self.worker_settings(), expected).await?;
        let job = |job: windlass::NewJob| job.with_queue(QUEUE).with_key(QUIET);
        let mut progress = Progress::new("alone", WARM_UP + samples, globals.json);
        ping(client, job, (WARM_UP, Duration::ZERO), &mut starts, |done| progress.reach(done)).await?;
        let alone =
            ping(client, job, (samples, GAP), &mut starts, |done| progress.reach(WARM_UP + done)).await?;
        drop(progress);
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let noise = Load::Noise { ms: self.sleep_ms };
        fill(client, &work, noise, globals.json).await?;
        let mut progress = Progress::new("beside", samples, globals.json);
        let beside = ping(client, job, (samples, GAP), &mut starts, |done| progress.reach(done)).await?;
        drop(progress);
        let left = self.jobs.saturating_sub(workers.handled());
        if left == 0 {
            let message =
                "the backlog was worked before the last sample; choose more --jobs or fewer samples";
            return Err(Failure::failed("too_short", message.to_owned()));
        }
        workers.counts().expect(self.jobs);
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        worked::finish(workers, meter, &mut progress).await?;
        for client in clients {
            client.close().await;
        }
        let p99 = |latency: &Value| latency["p99_us"].as_f64().unwrap_or_default();
        let (alone, beside) = (json!(alone.report()), json!(beside.report()));
        let ratio = round(p99(&beside) / p99(&alone));
        let figures = json!({ "alone": alone, "beside": beside, "p99_ratio": ratio, "left": left });
        Ok((figures, self.jobs + WARM_UP + 2 * samples))
    }

    fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling }
    }
}
