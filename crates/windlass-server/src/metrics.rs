//! `/metrics`: the store's figures, and this server's own.

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Registry, Unit},
};
use std::{fmt, sync::atomic::AtomicU64, time::Duration};
use windlass::{QueueStats, StoreStatus};

/// How many queues have figures of their own; the rest are one, `_other`.
const MOST_QUEUES: usize = 200;
const REST: &str = "_other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRequest {
    route: &'static str,
    method: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    queue: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWorkers {
    state: &'static str,
}

/// What was answered.
pub(crate) struct Served<'a> {
    pub(crate) route: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
}

type Seconds = Family<OfRequest, Histogram, fn() -> Histogram>;
type Age = Gauge<f64, AtomicU64>;

/// What this process counts.
pub(crate) struct Metrics {
    requests: Seconds,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self { requests: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 8))) }
    }

    pub(crate) fn served(&self, served: &Served<'_>, took: Duration) {
        let method = match *served.method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let class = match served.status.as_u16() {
            0..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let labels = OfRequest { route: served.route, method, class };
        self.requests.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// All figures, as OpenMetrics text.
    pub(crate) fn text(
        &self,
        status: &StoreStatus,
        queues: &[QueueStats],
        readers: usize,
    ) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("windlass");
        registry.register_with_unit(
            "http_request",
            "How long answers took",
            Unit::Seconds,
            self.requests.clone(),
        );
        let live: Gauge = Gauge::default();
        live.set(gauge(readers as u64));
        registry.register("live_readers", "Streams of live figures", live);
        registry.register(
            "build",
            "The version of this server",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        of_store(&mut registry, status);
        of_queues(&mut registry, queues);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

fn of_store(registry: &mut Registry, status: &StoreStatus) {
    let workers: Family<OfWorkers, Gauge> = Family::default();
    let live = status.workers.iter().filter(|worker| worker.live).count();
    workers.get_or_create(&OfWorkers { state: "live" }).set(gauge(live as u64));
    workers.get_or_create(&OfWorkers { state: "gone" }).set(gauge((status.workers.len() - live) as u64));
    registry.register("workers", "Workers that registered lately", workers);
    let bytes: Gauge = Gauge::default();
    bytes.set(gauge(status.size_bytes));
    registry.register_with_unit("store", "The size of Windlass's tables", Unit::Bytes, bytes);
}

fn of_queues(registry: &mut Registry, queues: &[QueueStats]) {
    let (available, running, paused) = (
        Family::<OfQueue, Gauge>::default(),
        Family::<OfQueue, Gauge>::default(),
        Family::<OfQueue, Gauge>::default(),
    );
    let (held, dead) = (Family::<OfState, Gauge>::default(), Family::<OfState, Gauge>::default());
    let oldest = Family::<OfQueue, Age>::default();
    for (at, queue) in queues.iter().enumerate() {
        let name = if at < MOST_QUEUES { queue.name.clone() } else { REST.to_owned() };
        let of = OfQueue { queue: name.clone() };
        available.get_or_create(&of).inc_by(gauge(queue.available));
        running.get_or_create(&of).inc_by(gauge(queue.running));
        paused.get_or_create(&of).inc_by(queue.paused.into());
        let waited =
            queue.oldest_available_at.map_or(0.0, |at| Timestamp::now().duration_since(at).as_secs_f64());
        let age = oldest.get_or_create(&of);
        age.set(age.get().max(waited));
        for (family, state, count) in [
            (&held, "scheduled", queue.scheduled),
            (&held, "retryable", queue.retryable),
            (&dead, "cancelled", queue.cancelled),
            (&dead, "discarded", queue.discarded),
        ] {
            family.get_or_create(&OfState { queue: name.clone(), state }).inc_by(gauge(count));
        }
    }
    registry.register(
        "queue_available_jobs",
        "Jobs ready to be claimed; large counts may be estimates",
        available,
    );
    registry.register("queue_running_jobs", "Jobs held by live workers", running);
    registry.register("queue_paused", "1 where nothing is claimed", paused);
    registry.register_with_unit(
        "queue_oldest_age",
        "How long the job has waited that waits longest to be claimed",
        Unit::Seconds,
        oldest,
    );
    registry.register("held_jobs", "Jobs that wait for their time or their next attempt", held);
    registry.register("dead_jobs", "Cancelled and discarded jobs that are kept", dead);
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_make_no_more_series() {
        let named = |n: usize| QueueStats { name: format!("q{n:03}"), available: 2, ..QueueStats::default() };
        let queues: Vec<_> = (0..MOST_QUEUES + 50).map(named).collect();
        let status = StoreStatus { store: "S".into(), schema_version: 1, size_bytes: 5, workers: Vec::new() };
        let metrics = Metrics::new();
        metrics.served(
            &Served { route: "queues.list", method: &Method::GET, status: StatusCode::OK },
            Duration::from_millis(3),
        );
        let text = metrics.text(&status, &queues, 1).unwrap();
        assert_eq!(
            text.lines().filter(|line| line.starts_with("windlass_queue_available_jobs{")).count(),
            MOST_QUEUES + 1
        );
        for line in [
            "windlass_queue_available_jobs{queue=\"_other\"} 100",
            "windlass_store_bytes 5",
            "windlass_live_readers 1",
            "windlass_workers{state=\"live\"} 0",
            "windlass_http_request_seconds_count{route=\"queues.list\",method=\"GET\",class=\"2xx\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing in {text}");
        }
    }
}
