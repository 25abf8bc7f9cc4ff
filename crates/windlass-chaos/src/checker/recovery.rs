//! I12: after every outage throughput is back to 90 % within 10 seconds, without a restart.

use super::{
    Invariant, Report,
    faults::{Faults, Window},
};
use crate::history::{Fault, History, Outcome, Phase, What};

/// How soon throughput must be back.
const WITHIN_NS: u64 = 10_000_000_000;
/// To which part of what it was.
const SHARE: f64 = 0.9;
/// Rates are counted over windows this long, every tenth of it.
const RATE_NS: u64 = 1_000_000_000;
/// The most seconds that a baseline is made of: a day, longer than any run.
const MAX_SECONDS: usize = 86_400;

/// How long throughput took to come back after one outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recovery {
    /// When the outage was over.
    healed: u64,
    /// How long it took from then, in nanoseconds; none: it did not come back in time.
    took_ns: Option<u64>,
}

pub(super) fn check(history: &History, faults: &Faults, report: &mut Report) {
    let mut done = Vec::new();
    let (mut from, mut until) = (0, 0);
    for recorded in &history.events {
        match recorded.event.what {
            What::Finished { outcome: Outcome::Complete, .. } => done.push(recorded.event.at),
            What::Phase { phase: Phase::Warm } => from = recorded.event.at,
            What::Phase { phase: Phase::Heal } => until = recorded.event.at,
            _ => {}
        }
    }
    // Before the first one workers may not even have started, on a busy machine.
    let from = done.first().map_or(from, |first| from.max(*first));
    let outages: Vec<&Window> = faults.windows.iter().filter(|window| is_outage(window.fault)).collect();
    let Some(baseline) = baseline(&done, &outages, from, until) else {
        report.violate(
            Invariant::I12,
            None,
            "there was no second without an outage to compare with".to_owned(),
        );
        return;
    };
    for recovery in recoveries(&done, &outages, until, baseline) {
        report.counts.recoveries += 1;
        match recovery.took_ns {
            Some(took) => {
                let slowest = &mut report.counts.slowest_recovery_ms;
                *slowest = (*slowest).max(took / 1_000_000);
            }
            None => {
                let text = format!(
                    "10 s after the outage that ended at {} throughput is not back to 90 % of {baseline:.0}/s",
                    recovery.healed
                );
                report.violate(Invariant::I12, None, text);
            }
        }
    }
}

/// Faults that stop everybody.
fn is_outage(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::DatabaseCrash
            | Fault::DatabaseRestart
            | Fault::ConnectionCut
            | Fault::Blackhole
            | Fault::PoolExhausted
            | Fault::DiskFull
            | Fault::Failover
            | Fault::PoolerRestart
    )
}

/// The median rate per second of the seconds without an outage, of any kind and 2 s around.
fn baseline(done: &[u64], outages: &[&Window], from: u64, until: u64) -> Option<f64> {
    let calm = |second: &u64| {
        let end = second.saturating_add(RATE_NS);
        !outages.iter().any(|o| o.begin <= end && o.end.saturating_add(2 * RATE_NS) >= *second)
    };
    let seconds =
        (from..until.saturating_sub(RATE_NS)).step_by(usize::try_from(RATE_NS).ok()?).take(MAX_SECONDS);
    let mut rates: Vec<usize> = seconds.filter(calm).map(|second| within(done, second)).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).map(|rate| *rate as f64).filter(|rate| *rate > 0.0)
}

fn within(done: &[u64], from: u64) -> usize {
    done.partition_point(|at| *at < from.saturating_add(RATE_NS)) - done.partition_point(|at| *at < from)
}

fn recoveries(done: &[u64], outages: &[&Window], until: u64, baseline: f64) -> Vec<Recovery> {
    let mut recoveries = Vec::new();
    for (index, outage) in outages.iter().enumerate() {
        let next = outages.get(index + 1).map_or(until, |next| next.begin);
        let windows = (outage.end..outage.end.saturating_add(WITHIN_NS)).step_by(100_000_000);
        let back = windows
            .take_while(|start| start.saturating_add(RATE_NS) <= next)
            .find(|start| within(done, *start) as f64 >= SHARE * baseline);
        // The next outage came too soon to tell.
        if back.is_none() && next < outage.end.saturating_add(WITHIN_NS + RATE_NS) {
            continue;
        }
        let took_ns = back.map(|start| start.saturating_add(RATE_NS) - outage.end);
        recoveries.push(Recovery { healed: outage.end, took_ns });
    }
    recoveries
}
