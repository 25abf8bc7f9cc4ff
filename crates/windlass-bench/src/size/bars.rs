use super::rounds::Rounds;
use crate::measure::round;
use indicatif::HumanBytes;
use serde_json::{Value, json};

/// A claim or settle of the busy queue, whose jobs come one by one, takes no longer than this. A claim of thousands of jobs from a
/// backlog takes as long as they take to be read.
const SLOWEST_MS: f64 = 20.0;
/// Its drain is at least so fast, in percent of the drain alone.
const LEAST_PERCENT: f64 = 80.0;
/// The store is no larger after retention than its burden was by this factor and so many bytes: a job that was moved has an entry
/// in one more index, and tables keep a few pages.
const GROWTH: f64 = 1.5;
const SLACK_BYTES: u64 = 64 << 20;
/// A worker needs no more memory than this, whatever is stored.
const MEMORY_BYTES: u64 = 256 << 20;

/// How large the store is.
pub(crate) struct Sizes {
    /// With the burden alone.
    pub(crate) burdened: u64,
    /// After the last round.
    pub(crate) drained: u64,
    /// When housekeeping finds nothing to do any more.
    pub(crate) after_retention: u64,
}

/// The bars, and whether they were met.
pub(crate) fn bars(alone: &Rounds, beside: &Rounds, sizes: &Sizes, most_memory: u64) -> Value {
    let slowest = beside.steady.slowest_ms();
    let percent = percent_of_alone(alone, beside);
    let bound = (sizes.burdened as f64 * GROWTH) as u64 + SLACK_BYTES;
    json!({
        "slowest_claim_or_settle": bar(slowest <= SLOWEST_MS, &format!("{slowest} ms, at most {SLOWEST_MS} ms; alone {} ms", alone.steady.slowest_ms())),
        "drain": bar(percent >= LEAST_PERCENT, &format!("{percent} % of alone, at least {LEAST_PERCENT} %")),
        "size_after_retention": bar(sizes.after_retention <= bound, &format!("{}, at most {}", HumanBytes(sizes.after_retention), HumanBytes(bound))),
        "memory": bar(most_memory <= MEMORY_BYTES, &format!("{}, at most {}", HumanBytes(most_memory), HumanBytes(MEMORY_BYTES))),
    })
}

/// How fast the drain beside a burden is, in percent of the drain alone: medians of rounds that took turns.
pub(crate) fn percent_of_alone(alone: &Rounds, beside: &Rounds) -> f64 {
    round(beside.median() as f64 * 100.0 / alone.median().max(1) as f64)
}

fn bar(met: bool, measured: &str) -> Value {
    json!({ "met": met, "measured": measured })
}
