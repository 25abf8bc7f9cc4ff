//! What becomes of the store when nothing is retained any more.

use super::{busy::Busy, rounds::Rounds};
use crate::measure::round;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use windlass::{Client, MaintainReport, Result};
use windlass_cli::failure::{Failure, Outcome};

/// So many calls in a row must find nothing to do: a segment that somebody reads is left for the next.
const QUIET: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// How long emptying the log may take when nobody works any more.
const PATIENCE: Duration = Duration::from_secs(900);

/// Lets completed jobs be retained for no time, and keeps house without a pause: first beside `rounds` rounds, then until
/// nothing is left to do. Under the usual settings the log moves on twice a day; here it does all the time, and carries the burden
/// along each time, which is the worst that housekeeping can do to the busy queue.
pub(crate) async fn keep_house(busy: &mut Busy<'_>, rounds: usize) -> Outcome<(Rounds, Value)> {
    let client = busy.client.clone();
    client.configure(&client.settings().await?.with_retention(Duration::ZERO)).await?;
    let over = Arc::new(AtomicBool::new(false));
    let keeper = tokio::spawn(keep(client.clone(), Arc::clone(&over)));
    let mut beside = Rounds::new();
    for _ in 0..rounds {
        busy.round(&mut beside).await?;
    }
    over.store(true, Ordering::Relaxed);
    let mut sum = keeper.await??;
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET {
        let report = client.store().maintain().await?;
        quiet = if report.rotated || report.truncated > 0 || report.rehomed > 0 { 0 } else { quiet + 1 };
        sum.add(report);
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed("stalled", format!("housekeeping found work for {PATIENCE:?}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let figures = json!({
        "per_second": beside.rates,
        "server_cpu_seconds_per_million_jobs": beside.server_cpu(),
        "claim": beside.times.claims.report(),
        "settle": beside.times.settles.report(),
        "slowest_call_ms": beside.slowest_ms(),
        "turns": sum.turns,
        "emptied": sum.emptied,
        "moved_jobs": sum.moved,
        "longest_call_ms": round(sum.longest.as_secs_f64() * 1e3),
        "rest_seconds": round(began.elapsed().as_secs_f64()),
    });
    Ok((beside, figures))
}

/// What all calls did.
#[derive(Default)]
struct Sum {
    turns: u64,
    emptied: u64,
    moved: u64,
    longest: Duration,
}

impl Sum {
    fn add(&mut self, report: MaintainReport) {
        self.turns += u64::from(report.rotated);
        self.emptied += u64::from(report.truncated);
        self.moved += report.rehomed;
    }
}

async fn keep(client: Client, over: Arc<AtomicBool>) -> Result<Sum> {
    let mut sum = Sum::default();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        sum.add(client.store().maintain().await?);
        sum.longest = sum.longest.max(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(sum)
}
