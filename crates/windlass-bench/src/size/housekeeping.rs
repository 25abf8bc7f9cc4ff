//! What becomes of the store when nothing is retained any more.

use super::{busy::Busy, footprint::footprint, place::Place, rounds::Rounds};
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
const QUIET_PAUSE: Duration = Duration::from_millis(500);
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
    finish(&client, busy.place, &mut sum).await?;
    let figures = json!({
        "per_second": beside.rates,
        "server_cpu_seconds_per_million_jobs": beside.server_cpu(),
        "draining": beside.draining.report(),
        "steady": beside.steady.report(),
        "turns": sum.turns,
        "emptied": sum.emptied,
        "moved_jobs": sum.moved,
        "longest_call_ms": round(sum.longest.as_secs_f64() * 1e3),
        "rest_seconds": round(began.elapsed().as_secs_f64()),
    });
    Ok((beside, figures))
}

/// Keeps house until nothing is left to do. A call that finds another at it answers that it did nothing, so the store has to keep
/// its size as well.
async fn finish(client: &Client, place: &Place, sum: &mut Sum) -> Outcome {
    let began = Instant::now();
    let (mut quiet, mut bytes) = (0, 0);
    while quiet < QUIET {
        let report = client.store().maintain().await?;
        let now = footprint(place).await?;
        let idle = !report.rotated && report.truncated == 0 && report.rehomed == 0 && now == bytes;
        quiet = if idle { quiet + 1 } else { 0 };
        bytes = now;
        sum.add(report);
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed("stalled", format!("housekeeping found work for {PATIENCE:?}")));
        }
        tokio::time::sleep(QUIET_PAUSE).await;
    }
    Ok(())
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
