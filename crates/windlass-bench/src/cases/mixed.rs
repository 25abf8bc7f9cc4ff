use crate::{
    finding::Finding,
    measure::{HeldSnapshot, round},
    meter::Meter,
    mix::{Mix, Pace, mix},
    options::{MAX_CONCURRENCY, MAX_JOBS},
    store::{connect, connect_each, next_id},
    worker_settings::{Settling, WorkerSettings},
    workers::Workers,
};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, MeasuredStore, per_second},
    progress::Progress,
};

/// How many jobs a batch has without a schedule.
const BATCH: u64 = 1_000;
/// About how many batches per second a schedule has, when no batch size was chosen.
const BATCHES_PER_SECOND: u64 = 500;

/// Enqueues and works at the same time, and measures from enqueue to the start of the handler.
///
/// With --backlog a batch is sent whenever fewer jobs than that are unfinished (a closed loop): this shows the
/// highest rate, and latency counts from the call of enqueue. With --rate batches are sent on a fixed schedule
/// (an open loop), and latency counts from the time at which a job was due to be sent: a pause of the store
/// delays the jobs behind it, and their wait is counted, not left out ("coordinated omission").
#[derive(clap::Args)]
pub(crate) struct Mixed {
    /// How long to enqueue. Jobs that are left after that are worked too, and count for the latency only
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How many jobs may be unfinished
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    backlog: u64,
    /// How many jobs to send per second, on a schedule that does not wait for the store
    #[arg(long, conflicts_with = "backlog", value_name = "JOBS_PER_SECOND",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Option<u64>,
    /// How many jobs each call enqueues. Default: 1,000; with --rate as many as are due in 2 ms
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch: Option<u64>,
    /// How many connections enqueue. Default: 2, with --rate 10, so that a slow call delays few others
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: Option<u32>,
    /// How many jobs run at once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: u32,
    /// Opens a snapshot in another session after so many seconds, and holds it to the end (PostgreSQL)
    #[arg(long, value_name = "SECONDS")]
    hold_snapshot_after: Option<u64>,
    /// How the worker settles what it handled
    #[arg(long, value_enum, default_value_t)]
    settling: Settling,
}

impl Mixed {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        self.check(store)?;
        let meter = Meter::open(store).await;
        let client = connect(store, self.clients()).await?;
        client.migrate().await?;
        let clients = connect_each(&store.url, 1).await?;
        let settings = WorkerSettings { concurrency: self.concurrency as usize, settling: self.settling };
        let expected = Expected { jobs: u64::MAX, first: next_id(&client).await? };
        let (mut workers, _starts) = Workers::start(&clients, settings, expected).await?;
        let plan = self.plan();
        let mut progress = Progress::new("completed", plan.scheduled(), globals.json);
        let mixing = mix(&client, &plan, &mut workers, &mut progress);
        let (mixed, held) = tokio::try_join!(mixing, self.hold(store))?;
        let costs = meter.costs(&meter.read().await, mixed.handled);
        workers.counts().expect(mixed.end);
        workers.finish(&mut progress).await?;
        drop((progress, held));
        workers.verify()?;
        let figures = json!({
            "completed_seconds": round(mixed.took.as_secs_f64()),
            "completed_per_second": per_second(mixed.handled, mixed.took),
            "per_second": workers.per_second(),
            "enqueued_each_second": mixed.enqueued_each_second,
            "jobs": mixed.end,
            "unsent": self.rate.map(|_| mixed.unsent),
            "latency": workers.delays().report(),
            "sent_late": self.rate.map(|_| mixed.late.report()),
            "enqueue_call": mixed.calls.report(),
        });
        workers.stop().await;
        clients[0].close().await;
        client.close().await;
        let commits = meter.commits_per_job(mixed.end).await;
        Ok(Finding::new("mixed", self.settling, (self.settings(), figures)).costing(costs, commits))
    }

    fn check(&self, store: &MeasuredStore) -> Outcome {
        if let Some(after) = self.hold_snapshot_after {
            HeldSnapshot::check(&store.url)?;
            if after >= self.seconds {
                let message = format!(
                    "a snapshot after {after} s would come at the end of {} s; choose a smaller \
                     --hold-snapshot-after or a larger --seconds",
                    self.seconds
                );
                return Err(Failure::usage("invalid_option", message));
            }
        }
        let most = self.rate.map_or(0, |rate| rate.saturating_mul(self.seconds));
        if most > MAX_JOBS {
            let message = format!("--rate times --seconds is {most} jobs; the most is {MAX_JOBS}");
            return Err(Failure::usage("invalid_option", message));
        }
        if self.rate.is_none() && self.batch() > self.backlog {
            let message = format!(
                "a batch of {} does not fit into a backlog of {}; choose a smaller --batch",
                self.batch(),
                self.backlog
            );
            return Err(Failure::usage("invalid_option", message));
        }
        Ok(())
    }

    fn plan(&self) -> Mix {
        Mix {
            batch: self.batch(),
            clients: self.clients(),
            pace: self.rate.map_or(Pace::Backlog(self.backlog), |rate| Pace::Rate(rate as f64)),
            lasts: Duration::from_secs(self.seconds),
            from: 0,
        }
    }

    fn batch(&self) -> u64 {
        match (self.batch, self.rate) {
            (Some(batch), _) => batch,
            (None, Some(rate)) => (rate / BATCHES_PER_SECOND).clamp(1, BATCH),
            (None, None) => BATCH.min(self.backlog),
        }
    }

    fn clients(&self) -> usize {
        self.clients.unwrap_or(if self.rate.is_some() { 10 } else { 2 }) as usize
    }

    async fn hold(&self, store: &MeasuredStore) -> Outcome<Option<HeldSnapshot>> {
        let Some(after) = self.hold_snapshot_after else { return Ok(None) };
        tokio::time::sleep(Duration::from_secs(after)).await;
        Ok(Some(HeldSnapshot::open(&store.url).await?))
    }

    fn settings(&self) -> Value {
        json!({
            "seconds": self.seconds,
            "loop": if self.rate.is_some() { "open" } else { "closed" },
            "backlog": self.rate.is_none().then_some(self.backlog),
            "rate": self.rate,
            "batch": self.batch(),
            "clients": self.clients(),
            "concurrency": self.concurrency,
            "hold_snapshot_after": self.hold_snapshot_after,
        })
    }
}
