//! The time from an enqueue call to the start of its handler, one job after the other on an idle worker:
//! `cargo run --release -p windlass --example latency URL [SAMPLES] [PAUSE_MS]`.

use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use windlass::{Client, Job, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct Ping {
    id: u64,
}

impl Job for Ping {
    const KIND: &'static str = "ping";
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let url = arguments.get(1).map_or("sqlite:latency.db", String::as_str);
    let samples: u64 = arguments.get(2).map_or(Ok(1_000), |text| text.parse())?;
    let pause: u64 = arguments.get(3).map_or(Ok(0), |text| text.parse())?;

    let client = Client::connect(url).await?;
    client.migrate().await?;
    let (sender, mut started) = mpsc::unbounded_channel();
    let handler = move |_: Ping, _| {
        let sent = sender.send(Instant::now());
        async move { sent }
    };
    let worker = Worker::builder(&client).queue("default", 10).handle(handler).start().await?;
    let mut latencies = Vec::new();
    for id in 0..samples {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let asked_at = Instant::now();
        client.enqueue(Ping { id }).await?;
        let started_at = started.recv().await.expect("the worker holds the sender");
        latencies.push(started_at.saturating_duration_since(asked_at).as_secs_f64() * 1e3);
    }
    worker.shutdown().await;
    latencies.sort_by(f64::total_cmp);
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
    let average = latencies.iter().sum::<f64>() / latencies.len() as f64;
    println!(
        "{samples} samples: average {average:.2} ms, p50 {:.2}, p99 {:.2}, max {:.2}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    client.close().await;
    Ok(())
}
