//! What shows only with time: a snapshot that somebody holds, and memory.

use super::{Ended, PATIENCE, Store, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    database,
    history::{Fault, Phase},
    node::PostgresOptions,
};
use anyhow::Result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use windlass::{Args, Client, NewJob, RawJob, Worker};

const QUEUE: &str = "measure";
/// The share of throughput that a held snapshot may cost.
const MAY_COST: f64 = 0.05;
/// Bytes per hour that memory may grow by.
const MAY_GROW: f64 = (1 << 20) as f64;

/// Somebody holds a snapshot for half an hour while jobs flow; drains on this server and on one without, in
/// turns, must be as fast.
pub(super) fn snapshot(trial: &Trial) -> Result<Ended> {
    let ground = Ground::postgres(PostgresOptions::default())?;
    let calm = Ground::postgres(PostgresOptions::default())?;
    let mut run = ground.open(trial)?;
    run.worker(Work { slots: 20, ..Work::default() })?;
    run.producer(Load { rate: 200.0, ..Load::default() })?;
    run.wait(Duration::from_millis(500))?;
    run.phase(Phase::Faults);
    let (held, free) = run.block_on(async {
        // In a schema of their own: millions of jobs that the final dump need not read.
        let held = Client::connect(&format!("{}?schema=measure", ground.url)).await?;
        let free = Client::connect(&format!("{}?schema=measure", calm.url)).await?;
        held.migrate().await?;
        free.migrate().await?;
        anyhow::Ok((held, free))
    })?;
    let holder = run.block_on(hold(&ground.url))?;
    run.fault(Fault::HeldSnapshot, true);
    let end = Instant::now() + trial.scaled(Duration::from_secs(1_800), Duration::from_secs(2));
    let count = trial.scaled(200_000, 5_000);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0.. {
        // In turns, and the first of a pair in turns too: what warms up or tires favours neither.
        let order = if round % 2 == 0 { [true, false] } else { [false, true] };
        for is_held in order {
            let (client, rates) = if is_held { (&held, &mut with) } else { (&free, &mut without) };
            rates.push(run.block_on(drain(client, count))?);
        }
        run.wait(trial.scaled(Duration::from_secs(5), Duration::ZERO))?;
        if Instant::now() > end {
            break;
        }
    }
    run.fault(Fault::HeldSnapshot, false);
    drop(holder);
    let ratio = median(&mut with) / median(&mut without);
    let note = format!(
        "{} drains of {count} jobs each way: {:.0}/s with the snapshot, {:.0}/s without: {:.1} %",
        with.len(),
        median(&mut with),
        median(&mut without),
        ratio * 100.0
    );
    // A short run on a busy machine says nothing about 5 %.
    if trial.full && ratio < 1.0 - MAY_COST {
        run.fail(note.clone());
    }
    Ok(Ended::Ran(Box::new(run.conclude(PATIENCE)?), vec![note]))
}

/// A session of a third party with a snapshot, until it is dropped.
async fn hold(url: &str) -> Result<tokio_postgres::Client> {
    let client = database::connect(url).await?;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await?;
    Ok(client)
}

/// Enqueues so many jobs and works them off; jobs per second of the working.
async fn drain(client: &Client, count: u64) -> Result<f64> {
    let job = || Ok(NewJob::new("drain", Args::parse("{\"key\":-1}")?).with_queue(QUEUE));
    for _ in 0..count / 5_000 {
        client.enqueue_many((0..5_000).map(|_| job()).collect::<Result<Vec<_>>>()?).await?;
    }
    let (done, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let began = Instant::now();
    let (counter, signal) = (Arc::clone(&done), Arc::clone(&all));
    let worker = Worker::builder(client).queue(QUEUE, 200).handle_kind("drain", move |_: RawJob| {
        if counter.fetch_add(1, Ordering::Relaxed) + 1 == count {
            signal.notify_one();
        }
        std::future::ready(())
    });
    let worker = worker.start().await?;
    all.notified().await;
    worker.shutdown().await;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// An hour of steady work: memory must not grow.
pub(super) fn soak(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.removes_completed = true;
    let worker = run.worker(Work { slots: 50, lease_ms: 5_000, retention_s: Some(30), ..Work::default() })?;
    let rate = if trial.store == Store::Postgres { 400.0 } else { 200.0 };
    let producer = run.producer(Load { mix: Mix::Varied, rate, lanes: 2, ..Load::default() })?;
    run.phase(Phase::Faults);
    let (length, warm) = trial.scaled((3_600, 900), (10, 2));
    let mut samples: Vec<(f64, f64, f64)> = Vec::new();
    let began = Instant::now();
    while began.elapsed().as_secs() < length {
        run.wait(Duration::from_secs(trial.scaled(5, 1)))?;
        let (of_worker, of_producer) = (run.rss_bytes(worker)? as f64, run.rss_bytes(producer)? as f64);
        if began.elapsed().as_secs() >= warm {
            samples.push((began.elapsed().as_secs_f64() / 3_600.0, of_worker, of_producer));
        }
    }
    let mut notes = Vec::new();
    for (name, pick) in [("worker", 1), ("producer", 2)] {
        let of = |sample: &(f64, f64, f64)| (sample.0, if pick == 1 { sample.1 } else { sample.2 });
        let points: Vec<(f64, f64)> = samples.iter().map(of).collect();
        let slope = slope(&points);
        let mebi = |bytes: f64| bytes / (1 << 20) as f64;
        let last = points.last().map_or(0.0, |(_, bytes)| mebi(*bytes));
        notes.push(format!("memory of the {name}: {last:.1} MiB, slope {:.3} MiB/h", mebi(slope)));
        if trial.full && slope > MAY_GROW {
            run.fail(notes[notes.len() - 1].clone());
        }
    }
    Ok(Ended::Ran(Box::new(run.conclude(PATIENCE)?), notes))
}

/// Least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let over: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let under: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if under == 0.0 { 0.0 } else { over / under }
}
