use crate::{
    finding::Finding,
    meter::Meter,
    mix::{Mix, Mixed, Pace, mix},
    options::{MAX_CONCURRENCY, QUEUE},
    ping::ping_on_schedule,
    store::{connect, connect_each, next_id},
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Client, NewJob};
use windlass_cli::{
    duration,
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, Latencies, MeasuredStore, PingStarts, per_second, ping},
    progress::Progress,
};

/// How many jobs are worked before the first that is measured.
const WARM_UP: u64 = 200;
/// How long the highest rate of this machine is measured; the load is a share of it.
const CALIBRATION: Duration = Duration::from_secs(3);
/// How many jobs may be unfinished during that.
const BACKLOG: u64 = 20_000;
/// How many jobs each call of the load enqueues, also when the highest rate is measured: with calls of another
/// size the load would be a share of another rate.
const BATCH: u64 = 100;
/// How many connections the load has; the samples have connections of their own.
const LOAD_CLIENTS: usize = 4;
/// The time between two samples on a schedule, unless it is given.
const GAP: Duration = Duration::from_millis(10);

/// Enqueues single jobs and measures until their handler starts.
///
/// Without --load one job goes after the other, each when the one before has started and --gap has passed,
/// and the time counts from the call of enqueue. With --load a sample is sent every --gap, even if those before
/// it have not started, and the time counts from the moment at which it was due, so that no pause of the store
/// is left out ("coordinated omission").
#[derive(clap::Args)]
pub(crate) struct Latency {
    /// How many jobs
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    samples: u64,
    /// How long to wait after each job; with 30ms the worker has gone to sleep in between. With --load the
    /// time from one to the next. Default: 0s, with --load 10ms
    #[arg(long, value_parser = duration::parse)]
    gap: Option<Duration>,
    /// Enqueues other jobs at this percentage of the highest rate of this machine, which is measured first. 0: an
    /// idle worker, and samples on a schedule
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    load: Option<u32>,
    /// How many jobs may run at once. Default: 10, with --load 100
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: Option<u32>,
    /// How the worker settles what it handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

/// The jobs beside the samples, and the workers of both.
struct Load<'a> {
    client: &'a Client,
    workers: Workers,
    progress: Progress,
    /// The number of the next job of the load.
    next: u64,
}

impl Latency {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        if self.load.is_some() && self.gap().is_zero() {
            let message = "samples on a schedule need time between them; choose a --gap such as 10ms";
            return Err(Failure::usage("invalid_option", message));
        }
        let mut meter = Meter::open(store).await;
        let client = connect(store, 10).await?;
        client.migrate().await?;
        let clients = connect_each(&store.url, 1).await?;
        let settings = WorkerSettings { concurrency: self.concurrency() as usize, settling: self.settling };
        let expected = Expected { jobs: u64::MAX, first: next_id(&client).await? };
        let (workers, mut starts) = Workers::start(&clients, settings, expected).await?;
        // The first jobs open connections and plan statements, which an idle worker has done long ago.
        let mut warming = Progress::new("warm-up", WARM_UP, globals.json);
        let pings = (WARM_UP, Duration::ZERO);
        ping(&client, placed, pings, &mut starts, |done| warming.reach(done)).await?;
        drop(warming);
        let load_client = connect(store, LOAD_CLIENTS).await?;
        let progress = Progress::new("load", 0, globals.json);
        let mut load = Load { client: &load_client, workers, progress, next: 0 };
        let full = load.calibrate(self.load.unwrap_or(0)).await?;
        let before = load.next;
        meter.restart().await;
        let figures = self.sample(&client, &mut load, &mut starts, full, globals).await?;
        let costs = meter.costs(&meter.read().await, self.samples + load.next - before);
        let Load { mut workers, mut progress, next, .. } = load;
        workers.counts().expect(next);
        workers.finish(&mut progress).await?;
        workers.verify()?;
        workers.stop().await;
        for client in [&clients[0], &client, &load_client] {
            client.close().await;
        }
        let commits = meter.commits_per_job(self.samples + WARM_UP + next).await;
        Ok(Finding::new("latency", self.settling, (self.settings(), figures)).costing(costs, commits))
    }

    /// The figures of the samples. `full` is the highest rate of this machine, in jobs per second.
    async fn sample(
        &self,
        client: &Client,
        load: &mut Load<'_>,
        starts: &mut PingStarts,
        full: f64,
        globals: &Globals,
    ) -> Outcome<Value> {
        let mut progress = Progress::new("latency", self.samples, globals.json);
        let pings = (self.samples, self.gap());
        let Some(percent) = self.load else {
            let latencies = ping(client, placed, pings, starts, |done| progress.reach(done)).await?;
            return Ok(json!({ "latency": latencies.report() }));
        };
        let rate = full * f64::from(percent) / 100.0;
        let sampling = ping_on_schedule(client, pings, starts, &mut progress);
        let loading = load.run(rate, self.gap() * (self.samples + 1) as u32);
        let ((latencies, late), loaded) = tokio::try_join!(sampling, loading)?;
        let mut figures = json!({ "latency": latencies.report(), "sent_late": late.report() });
        if let Some((each_second, load_late)) = loaded {
            figures["full_load_per_second"] = json!(full.round() as u64);
            figures["load_per_second"] = json!(rate.round() as u64);
            figures["load_sent_late"] = json!(load_late.report());
            figures["per_second"] = json!(each_second);
        }
        Ok(figures)
    }

    fn gap(&self) -> Duration {
        self.gap.unwrap_or(if self.load.is_some() { GAP } else { Duration::ZERO })
    }

    fn concurrency(&self) -> u32 {
        self.concurrency.unwrap_or(if self.load.is_some() { 100 } else { 10 })
    }

    fn settings(&self) -> Value {
        json!({
            "samples": self.samples,
            "warm_up": WARM_UP,
            "gap_ms": self.gap().as_secs_f64() * 1e3,
            "loop": if self.load.is_some() { "open" } else { "closed" },
            "load_percent": self.load,
            "load_batch": self.load.map(|_| BATCH),
            "load_clients": self.load.map(|_| LOAD_CLIENTS),
            "concurrency": self.concurrency(),
        })
    }
}

impl Load<'_> {
    /// The highest rate of this machine: jobs per second that are enqueued and worked at once.
    async fn calibrate(&mut self, percent: u32) -> Outcome<f64> {
        if percent == 0 {
            return Ok(0.0);
        }
        let mix = self.plan(Pace::Backlog(BACKLOG), CALIBRATION);
        let mixed = self.mix(&mix).await?;
        Ok(per_second(mixed.handled, mixed.took) as f64)
    }

    /// Enqueues at a rate. Returns how many jobs were handled in each second, and how late batches were sent.
    async fn run(&mut self, rate: f64, lasts: Duration) -> Outcome<Option<(Vec<u64>, Latencies)>> {
        if rate <= 0.0 {
            return Ok(None);
        }
        let began = self.workers.started().elapsed();
        let mixed = self.mix(&self.plan(Pace::Rate(rate), lasts)).await?;
        Ok(Some((self.workers.per_second_after(began), mixed.late)))
    }

    fn plan(&self, pace: Pace, lasts: Duration) -> Mix {
        Mix { batch: BATCH, clients: LOAD_CLIENTS, pace, lasts, from: self.next }
    }

    async fn mix(&mut self, plan: &Mix) -> Outcome<Mixed> {
        let mixed = mix(self.client, plan, &mut self.workers, &mut self.progress).await?;
        self.next = mixed.end;
        Ok(mixed)
    }
}

fn placed(job: NewJob) -> NewJob {
    job.with_queue(QUEUE)
}
