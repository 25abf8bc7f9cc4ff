use crate::{
    finding::Finding,
    jobs::Wait,
    load::{Load, fill},
    measure::plain_commits,
    meter::Meter,
    options::{QUEUE, batch_of},
    store::connect,
    worked,
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time::timeout};
use windlass::{CancelReply, Client, Context, IntoJob, JobId, Outcome as Ended};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, Fill, Latencies, MeasuredStore},
    progress::Progress,
};

/// How long a sample may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many connections enqueue the depth.
const CLIENTS: usize = 2;
/// For how long a job runs before it is cancelled, so that what its start brought about is over.
const RUNS: Duration = Duration::from_millis(10);
/// Samples that are not counted: connections are opened, statements planned.
const WARM_UP: u64 = 20;

/// Cancels jobs that run, one after the other: how long the call takes, and until the handler's token fires. Then plain
/// rows are committed at the same pace (PostgreSQL): so much of a call that is kept is not ours.
#[derive(clap::Args)]
pub(crate) struct Cancel {
    /// How many jobs are cancelled
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    samples: u64,
    /// How many jobs were enqueued and completed before, so that the log is as deep
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    depth: u64,
}

/// What a handler tells.
enum Told {
    Started(JobId),
    Cancelled(JobId, Instant),
}

impl Cancel {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let mut meter = Meter::open(store).await;
        let settings = WorkerSettings { concurrency: 100, settling: Settling::default() };
        if self.depth > 0 {
            let work = Fill { queue: QUEUE, jobs: self.depth, batch: batch_of(0), clients: CLIENTS };
            let (filled, _) = fill(&client, &work, Load::Noop, globals.json).await?;
            let expected = Expected { jobs: self.depth, first: filled.first };
            let mut progress = Progress::new("completed", self.depth, globals.json);
            worked::work(store, (1, settings), expected, &meter, &mut progress).await?;
        }
        let mut figures = self.sample(&client, store, globals, &mut meter).await?;
        let costs = meter.costs(&meter.read().await, self.samples);
        client.close().await;
        let commits = meter.commits_per_job(self.samples).await;
        let plain = plain_commits(&store.url, self.samples, 2 * RUNS).await;
        figures["plain_commit"] = json!(plain.map(|times| times.report()));
        let options = json!({ "samples": self.samples, "depth": self.depth });
        Ok(Finding::new("cancel", settings.settling, (options, figures)).costing(costs, commits))
    }

    /// The figures of the samples.
    async fn sample(
        &self,
        client: &Client,
        store: &MeasuredStore,
        globals: &Globals,
        meter: &mut Meter,
    ) -> Outcome<Value> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let tell = Arc::new(tell);
        let handler = move |_: Wait, context: Context| {
            let tell = Arc::clone(&tell);
            async move {
                let _ = tell.send(Told::Started(context.id()));
                context.cancelled().await;
                let _ = tell.send(Told::Cancelled(context.id(), Instant::now()));
                Ended::Cancel("cancelled by the benchmark".to_owned())
            }
        };
        let settings = WorkerSettings { concurrency: 1, settling: Settling::default() };
        let worker = settings.builder(&Client::connect(&store.url).await?).handle(handler).start().await?;
        let mut progress = Progress::new("cancelled", self.samples, globals.json);
        let (mut calls, mut tokens) = (Latencies::new(), Latencies::new());
        for sample in 0..WARM_UP + self.samples {
            if sample == WARM_UP {
                meter.restart().await;
                (calls, tokens) = (Latencies::new(), Latencies::new());
            }
            let id = client.enqueue(Wait {}.into_job()?.with_queue(QUEUE)).await?;
            while !matches!(next(&mut told).await?, Told::Started(started) if started == id) {}
            tokio::time::sleep(RUNS).await;
            let began = Instant::now();
            let replies = client.cancel(&[id]).await?;
            calls.record(began.elapsed());
            if replies != [CancelReply::Running] {
                return Err(Failure::failed(
                    "internal",
                    format!("job {id} runs, its cancel was answered {replies:?}"),
                ));
            }
            let at = loop {
                if let Told::Cancelled(cancelled, at) = next(&mut told).await?
                    && cancelled == id
                {
                    break at;
                }
            };
            tokens.record(at.saturating_duration_since(began));
            progress.reach((sample + 1).saturating_sub(WARM_UP));
        }
        drop(progress);
        worker.shutdown().await;
        Ok(json!({ "cancel_call": calls.report(), "token": tokens.report() }))
    }
}

async fn next(told: &mut mpsc::UnboundedReceiver<Told>) -> Outcome<Told> {
    let next = timeout(PATIENCE, told.recv()).await.ok().flatten();
    next.ok_or_else(|| {
        Failure::failed("stalled", format!("no handler said anything for {} s", PATIENCE.as_secs()))
    })
}
