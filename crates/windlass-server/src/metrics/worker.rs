//! What a worker process counts itself: `windlass work --metrics`.

use super::gauge;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use windlass::{Error, ErrorKind, Result, WorkerStats};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Held {
    state: &'static str,
}

/// The figures of a worker as OpenMetrics text. Nothing in it names a queue, a kind or a job.
pub(crate) fn text(stats: &WorkerStats) -> Result<String> {
    let mut registry = Registry::with_prefix("windlass");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The version of this program", version);

    let claimed: Counter = Counter::default();
    claimed.inc_by(stats.claimed);
    registry.register("worker_claimed_jobs", "Jobs that the store gave this worker", claimed);
    let settled: Counter = Counter::default();
    settled.inc_by(stats.settled);
    registry.register("worker_settled_jobs", "Jobs of which the store knows what became of them", settled);

    let outcomes = Family::<Ended, Counter>::default();
    for (outcome, count) in [
        ("completed", stats.completed),
        ("retried", stats.retried),
        ("snoozed", stats.snoozed),
        ("cancelled", stats.cancelled),
        ("discarded", stats.discarded),
        ("no_handler", stats.no_handler),
        ("returned", stats.returned),
    ] {
        outcomes.get_or_create(&Ended { outcome }).inc_by(count);
    }
    registry.register("worker_job_outcomes", "What became of the jobs of this worker", outcomes);

    let jobs = Family::<Held, Gauge>::default();
    for (state, count) in [("running", stats.running), ("ready", stats.ready), ("unsettled", stats.unsettled)]
    {
        jobs.get_or_create(&Held { state }).set(gauge(count as u64));
    }
    registry.register("worker_jobs", "Jobs that this worker has in hand", jobs);

    let mut text = String::new();
    encode(&mut text, &registry)
        .map_err(|_| Error::new(ErrorKind::Internal, "the metrics cannot be written; please report it"))?;
    Ok(text)
}
