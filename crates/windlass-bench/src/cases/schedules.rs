//! Many schedules that tick at once: how late their jobs start, and what it takes.

use crate::{
    clean_up::clean_up,
    delays::Delays,
    finding::Finding,
    measure::round,
    meter::Meter,
    options::{MAX_CONCURRENCY, QUEUE, SOURCE},
    store::connect,
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use windlass::{Args, Client, Context, Missed, NewJob, RawJob, Schedule, Timestamp, Worker};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::MeasuredStore,
};

const KIND: &str = "windlass_bench.tick";
/// Until the worker leads and has found the first tick of each schedule; also how long it has for the last ones.
const WARM_UP: Duration = Duration::from_secs(3);
/// How many connections the client has, the worker's included.
const CONNECTIONS: usize = 4;

/// Schedules that all tick at the same times, worked by the worker that leads. Lateness, from the tick to the start of the handler, compares the
/// clock of this machine with the clock of the store: use a store on this machine, or one whose clock is synchronised.
#[derive(clap::Args)]
pub(crate) struct Schedules {
    /// How many schedules
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    schedules: u32,
    /// How many seconds lie between two ticks
    #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=60))]
    every: u32,
    /// How many seconds are measured
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// How the worker settles what it handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Schedules {
    pub(crate) async fn measure(&self, _: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let mut meter = Meter::open(store).await;
        let client = connect(store, CONNECTIONS).await?;
        client.migrate().await?;
        let job = NewJob::new(KIND, Args::parse("{}")?).with_queue(QUEUE);
        let schedules = (0..self.schedules).map(|number| self.schedule(number, &job));
        client.schedules().put_all_of(SOURCE, schedules).await?;
        let began = Timestamp::now().as_second() + WARM_UP.as_secs().cast_signed();
        let seen = Arc::new(Seen {
            delays: Delays::new(),
            ticks: AtomicU64::new(0),
            measured: began..began + i64::from(self.seconds),
        });
        let worker = self.start(&client, &seen).await?;
        tokio::time::sleep(WARM_UP).await;
        meter.restart().await;
        tokio::time::sleep(Duration::from_secs(self.seconds.into())).await;
        let costs = meter.costs(&meter.read().await, seen.ticks.load(Ordering::Relaxed));
        tokio::time::sleep(WARM_UP).await;
        client.schedules().put_all_of(SOURCE, []).await?;
        worker.shutdown().await;
        clean_up(store).await?;
        client.close().await;
        let ticks = seen.ticks.load(Ordering::Relaxed);
        let all = u64::from(self.schedules) * u64::from(self.seconds / self.every);
        if ticks == 0 {
            return Err(Failure::failed("too_slow", "no schedule ticked while it was measured".to_owned()));
        }
        let cpu = costs.get("cpu_seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let figures = json!({
            "ticks": ticks,
            "of_all_percent": round(ticks as f64 / all.max(1) as f64 * 100.0),
            "cpu_percent": round(cpu / f64::from(self.seconds) * 100.0),
            "lateness": seen.delays.sum().report(),
        });
        let settings = json!({
            "schedules": self.schedules, "every": self.every, "seconds": self.seconds, "concurrency": self.concurrency,
        });
        Ok(Finding::new("schedules", self.settling, (settings, figures)).costing(costs, None))
    }

    fn schedule(&self, number: u32, job: &NewJob) -> Schedule {
        Schedule::new(format!("{SOURCE}-{number}"), format!("every {}s", self.every), job.clone())
            .with_missed(Missed::All(Missed::MOST))
    }

    async fn start(&self, client: &Client, seen: &Arc<Seen>) -> Outcome<Worker> {
        let seen = Arc::clone(seen);
        let settings = WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling };
        let handler = move |_: RawJob, context: Context| {
            seen.note(&context);
            async {}
        };
        Ok(settings.builder(client).handle_kind(KIND, handler).start().await?)
    }
}

/// What handlers saw of the ticks that are measured.
struct Seen {
    delays: Delays,
    ticks: AtomicU64,
    /// Seconds since 1970.
    measured: std::ops::Range<i64>,
}

impl Seen {
    fn note(&self, context: &Context) {
        let Some(tick) = context.meta().and_then(|meta| tick(meta.as_str())) else { return };
        if self.measured.contains(&tick.as_second()) {
            let number = self.ticks.fetch_add(1, Ordering::Relaxed);
            self.delays.record_due(number, tick.as_microsecond());
        }
    }
}

fn tick(meta: &str) -> Option<Timestamp> {
    let meta: Value = serde_json::from_str(meta).ok()?;
    meta.get("windlass.tick")?.as_str()?.parse().ok()
}
