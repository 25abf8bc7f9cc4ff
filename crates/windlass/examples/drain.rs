//! Enqueues no-op jobs, drains them with one worker and prints what that took:
//! `cargo run --release -p windlass --example drain URL [JOBS] [CONCURRENCY]`.

use std::time::{Duration, Instant};
use windlass::{Client, Job, Worker};

/// Jobs per enqueue call.
const BATCH: u64 = 10_000;

#[derive(serde::Serialize, serde::Deserialize)]
struct Noop {
    id: u64,
}

impl Job for Noop {
    const KIND: &'static str = "noop";
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let url = arguments.get(1).map_or("sqlite:drain.db", String::as_str);
    let jobs: u64 = arguments.get(2).map_or(Ok(1_000_000), |text| text.parse())?;
    let concurrency: usize = arguments.get(3).map_or(Ok(100), |text| text.parse())?;

    let client = Client::connect(url).await?;
    client.migrate().await?;
    let started = Instant::now();
    for from in (0..jobs).step_by(BATCH as usize) {
        client.enqueue_many((from..jobs.min(from + BATCH)).map(|id| Noop { id })).await?;
    }
    report("enqueued", jobs, started.elapsed());

    let started = Instant::now();
    let worker = Worker::builder(&client)
        .queue("default", concurrency)
        .handle(|job: Noop, _| async move {
            std::hint::black_box(job.id);
        })
        .start()
        .await?;
    while worker.stats().settled < jobs {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    report("drained", jobs, started.elapsed());
    let started = Instant::now();
    worker.shutdown().await;
    println!("stopped in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    client.close().await;
    Ok(())
}

fn report(what: &str, jobs: u64, took: Duration) {
    println!(
        "{what} {jobs} jobs in {:.2} s: {:.0} jobs/s",
        took.as_secs_f64(),
        jobs as f64 / took.as_secs_f64()
    );
}
