//! How many no-op jobs per second the engine works off when the store costs nearly nothing:
//! `cargo run --release -p windlass-runtime --example drain [JOBS] [CONCURRENCY] [CLAIM_MS]`.

#[path = "../tests/fake/mod.rs"]
mod fake;

use fake::{Call, FakeStore, Fault, Handlers};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_runtime::{WorkerConfig, WorkerEngine};

fn argument(at: usize, default: usize) -> usize {
    std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() -> windlass_core::Result<()> {
    let (jobs, concurrency, claim_ms) = (argument(1, 1_000_000), argument(2, 100), argument(3, 0));
    let store = FakeStore::new();
    store.add("q", "noop", jobs);
    let delay = Duration::from_millis(claim_ms as u64);
    if claim_ms > 0 {
        store.plan(move |call| match call {
            Call::Claim | Call::Settle => Fault::Slow(delay),
            _ => Fault::None,
        });
    }
    let handlers = Handlers::default().on("noop", |_| async {});
    let config = WorkerConfig::default().with_queue("q", concurrency);
    let started = Instant::now();
    let cpu = cpu_seconds();
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await?;
    while engine.stats().settled < jobs as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (took, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    engine.shutdown().await;
    let model = store.model();
    let completions: usize = model.settles.iter().map(|settle| settle.completions.len()).sum();
    println!(
        "{jobs} jobs in {took:.3} s = {:.0} jobs/s, {:.2} us CPU per job (fake store included); {} claims, {} settles of {completions} rows",
        jobs as f64 / took,
        cpu * 1e6 / jobs as f64,
        model.demands.len(),
        model.settles.len(),
    );
    Ok(())
}

/// The processor time of this process so far; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}
