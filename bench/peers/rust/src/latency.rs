use crate::{Producer, Settings, System, Tally, Worker, outcome::Outcome, tally::verify};
use anyhow::{Context as _, bail};
use hdrhistogram::Histogram;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time::timeout};

/// The first jobs find connections to open and statements to plan; an idle worker has done that.
const WARM_UP: u64 = 200;
/// The longest wait for one job.
const LOST: Duration = Duration::from_secs(60);
/// How long the last completion may take.
const SETTLE: Duration = Duration::from_secs(30);

/// From the call of enqueue to the start of the handler, one job at a time, in one process.
pub(crate) async fn measure<S: System>(system: &S, settings: &Settings) -> anyhow::Result<Outcome> {
    let (starts, mut started) = mpsc::unbounded_channel();
    let tally = Arc::new(Tally::new(Duration::ZERO, Some(starts)));
    let mut producer = system.producers(1).await?.pop().context("the system made no producer")?;
    let mut worker = system.worker(settings, Arc::clone(&tally)).await?;
    tally.begin();
    worker.start().await?;
    let mut micros = Histogram::<u64>::new(4)?;
    for id in 0..WARM_UP + settings.samples {
        let called = Instant::now();
        producer.one(id).await?;
        let arrival = timeout(LOST, started.recv())
            .await
            .with_context(|| format!("job {id} did not start in {LOST:?}"))?;
        let (first, at) = arrival.context("the worker ended")?;
        if first != id {
            bail!("job {first} started where job {id} was enqueued: a job was handled twice");
        }
        if id >= WARM_UP {
            micros.record(at.duration_since(called).as_micros() as u64)?;
        }
        tokio::time::sleep_until((at + settings.gap).into()).await;
    }
    settle(system).await?;
    worker.stop().await?;
    verify(WARM_UP + settings.samples, &[tally.runs()])?;
    Ok(figures(&micros))
}

async fn settle<S: System>(system: &S) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match system.unfinished().await? {
            0 => return Ok(()),
            left if began.elapsed() > SETTLE => {
                bail!("{left} jobs are not completed {SETTLE:?} after the last started")
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn figures(micros: &Histogram<u64>) -> Outcome {
    let mut outcome =
        Outcome::default().with("samples", micros.len()).with("average_us", micros.mean().round() as u64);
    for (name, quantile) in
        [("p50_us", 0.5), ("p90_us", 0.9), ("p95_us", 0.95), ("p99_us", 0.99), ("p999_us", 0.999)]
    {
        outcome = outcome.with(name, micros.value_at_quantile(quantile));
    }
    outcome.with("max_us", micros.max())
}
