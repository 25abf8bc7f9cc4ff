//! `/metrics`: the store's figures, and this server's own. docs/guide/metrics.md lists them, and a test holds it to that.

mod outcomes;
mod queues;
mod store;
mod timings;
pub(crate) mod worker;

use crate::counts::{Counted, Counts};
use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use outcomes::Outcomes;
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
use std::{collections::HashSet, sync::Arc, time::Duration};
use timings::Times;
use windlass::{
    Client, Error, ErrorKind, History, Result, ScheduleFilter, ScheduleRecord, StoreStatus, Timings,
};

/// How many queues have figures of their own; the rest are one, `_other`.
const MOST_QUEUES: usize = 200;
const REST: &str = "_other";
/// What the text is, OpenMetrics.
pub(crate) const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The queues that have figures of their own.
#[derive(Debug, Default)]
struct Named(HashSet<String>);

impl Named {
    /// The label of a queue: the first [`MOST_QUEUES`] have theirs; `None`: not told apart.
    fn label(&mut self, queue: Option<&str>) -> String {
        let queue = queue.unwrap_or(REST);
        let has_room = self.0.len() < MOST_QUEUES || self.0.contains(queue);
        let queue = if has_room { queue } else { REST };
        self.0.insert(queue.to_owned());
        queue.to_owned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRequest {
    route: &'static str,
    method: &'static str,
    class: &'static str,
}

/// What was answered.
pub(crate) struct Served<'a> {
    pub(crate) route: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
}

type Seconds = Family<OfRequest, Histogram, fn() -> Histogram>;

/// What the store says at one moment.
struct Look {
    status: StoreStatus,
    counted: Arc<Counted>,
    history: History,
    timings: Timings,
    schedules: Vec<ScheduleRecord>,
}

/// What this process counts.
pub(crate) struct Metrics {
    requests: Seconds,
    outcomes: Outcomes,
    times: Times,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let new = || Histogram::new(exponential_buckets(0.001, 4.0, 8));
        Self {
            requests: Family::new_with_constructor(new),
            outcomes: Outcomes::default(),
            times: Times::default(),
        }
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

    /// All figures of this moment, as OpenMetrics text.
    pub(crate) async fn text(&self, client: &Client, counts: &Counts, readers: usize) -> Result<String> {
        let filter = ScheduleFilter { limit: ScheduleFilter::MOST, ..ScheduleFilter::default() };
        let look = Look {
            status: client.status().await?,
            counted: counts.all(client).await?,
            history: client.history(&self.outcomes.request(Timestamp::now())).await?,
            timings: client.timings(&self.times.request(Timestamp::now())).await?,
            schedules: client.store().schedules(&filter).await?,
        };
        self.written(&look, readers, Timestamp::now())
    }

    fn written(&self, look: &Look, readers: usize, now: Timestamp) -> Result<String> {
        self.outcomes.add(&look.history, now);
        self.times.add(&look.timings, now);
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
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this server", version);
        store::register(&mut registry, look, now);
        queues::register(&mut registry, &look.counted.queues, &look.status.workers, now);
        self.outcomes.register(&mut registry);
        self.times.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|_| {
            Error::new(ErrorKind::Internal, "the metrics cannot be written; please report it")
        })?;
        Ok(text)
    }
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::{HistoryRequest, QueueStats, TimingRequest};

    #[test]
    fn many_queues_make_no_more_series() {
        let named = |n: usize| QueueStats { name: format!("q{n:03}"), available: 2, ..QueueStats::default() };
        let queues = (0..MOST_QUEUES + 50).map(named).collect();
        let counted = Arc::new(Counted { at: Timestamp::now(), queues });
        let status = StoreStatus::new("S".into(), 1, 5, Vec::new());
        let history = History::new(HistoryRequest::MINUTE, Timestamp::now(), Vec::new());
        let timings = Timings::of(&TimingRequest::last(HistoryRequest::MINUTE), Vec::new());
        let look = Look { status, counted, history, timings, schedules: Vec::new() };
        let metrics = Metrics::new();
        metrics.served(
            &Served { route: "queues.list", method: &Method::GET, status: StatusCode::OK },
            Duration::from_millis(3),
        );
        let text = metrics.written(&look, 1, Timestamp::now()).unwrap();
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
