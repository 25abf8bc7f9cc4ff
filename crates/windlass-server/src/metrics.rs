//! `/metrics`: the store's figures, and this server's own. docs/guide/metrics.md lists them, and a test holds it to that.

mod outcomes;
pub(crate) mod queues;
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
    Client, Error, ErrorKind, History, HistoryRequest, Result, ScheduleFilter, ScheduleRecord, StoreStatus,
    Timings,
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

/// What the store says at one moment, and what it does not.
struct Look {
    status: StoreStatus,
    counted: Arc<Counted>,
    history: Option<History>,
    timings: Option<Timings>,
    schedules: Option<Vec<ScheduleRecord>>,
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
            history: unless_refused(client.history(&self.outcomes.request(Timestamp::now())).await)?,
            timings: unless_refused(self.timings(client).await)?,
            schedules: unless_refused(client.store().schedules(&filter).await)?,
        };
        self.written(&look, readers, Timestamp::now())
    }

    /// Of so much time as fits into one answer.
    async fn timings(&self, client: &Client) -> Result<Timings> {
        let mut request = self.times.request(Timestamp::now());
        loop {
            match client.timings(&request).await {
                Err(error)
                    if error.kind() == ErrorKind::InvalidOption && request.last > HistoryRequest::MINUTE =>
                {
                    request.last = (request.last / 2).max(HistoryRequest::MINUTE);
                }
                said => return said,
            }
        }
    }

    fn written(&self, look: &Look, readers: usize, now: Timestamp) -> Result<String> {
        look.history.iter().for_each(|history| self.outcomes.add(history, now));
        look.timings.iter().for_each(|timings| self.times.add(timings, now));
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
        queues::register(&mut registry, &look.counted.queues, &look.status, now);
        self.outcomes.register(&mut registry);
        self.times.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|_| {
            Error::new(ErrorKind::Internal, "the metrics cannot be written; please report it")
        })?;
        Ok(text)
    }
}

/// A part that the store refuses (more than an answer has, or a schema that is too old) leaves its figures out, and no others.
fn unless_refused<T>(said: Result<T>) -> Result<Option<T>> {
    use ErrorKind::{InvalidOption, PermissionDenied, SchemaTooOld, Unsupported};
    match said {
        Err(error)
            if [InvalidOption, PermissionDenied, SchemaTooOld, Unsupported].contains(&error.kind()) =>
        {
            tracing::warn!(%error, "figures are missing in /metrics");
            Ok(None)
        }
        said => said.map(Some),
    }
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::{QueueStats, WorkerRecord};

    fn look(queues: Vec<QueueStats>, workers: Vec<WorkerRecord>) -> Look {
        let counted = Arc::new(Counted { at: Timestamp::now(), queues });
        let status = StoreStatus::new("S".into(), 1, 5, workers);
        Look { status, counted, history: None, timings: None, schedules: None }
    }

    /// Alerts are for what of them needs somebody: a queue without jobs needs no worker, and one that is paused hides no other.
    #[test]
    fn queues_without_figures_of_their_own_call_for_somebody_when_one_of_them_does() {
        let long_ago = Some(Timestamp::now() - jiff::SignedDuration::from_hours(9));
        let of = |n: usize, available, paused| {
            let oldest_available_at = long_ago.filter(|_| available > 0);
            QueueStats {
                name: format!("q{n:03}"),
                available,
                paused,
                oldest_available_at,
                ..Default::default()
            }
        };
        let said = |last: [(u64, bool); 3]| {
            let named = (0..MOST_QUEUES).map(|n| of(n, 0, false));
            let rest = last.into_iter().enumerate();
            let queues =
                named.chain(rest.map(|(n, (available, paused))| of(n + MOST_QUEUES, available, paused)));
            let text =
                Metrics::new().written(&look(queues.collect(), Vec::new()), 1, Timestamp::now()).unwrap();
            let value = |name: &str| {
                let start = format!("windlass_queue_{name}{{queue=\"_other\"}} ");
                let value = text.lines().find_map(|line| line.strip_prefix(&start)?.parse::<f64>().ok());
                value.map(|value| value.trunc())
            };
            [value("workers"), value("paused"), value("oldest_age_seconds")]
        };
        let nine_hours = Some(9.0 * 3_600.0);
        assert_eq!(said([(0, false), (0, false), (0, false)]), [None, Some(0.0), Some(0.0)]);
        assert_eq!(said([(0, false), (5, true), (0, false)]), [None, Some(0.0), Some(0.0)]);
        assert_eq!(said([(5, true), (5, true), (5, true)]), [None, Some(1.0), Some(0.0)]);
        assert_eq!(said([(0, false), (5, true), (5, false)]), [Some(0.0), Some(0.0), nine_hours]);
    }

    /// The store lists a thousand workers; those of another queue may be among the others.
    #[test]
    fn where_not_all_workers_are_known_none_is_no_figure() {
        let queues = ["known", "other"];
        let queue = |name: &str| QueueStats { name: name.to_owned(), available: 2, ..QueueStats::default() };
        let worker = |live| WorkerRecord {
            id: windlass_core::WorkerId(7),
            name: "w".into(),
            queues: vec!["known".into()],
            started_at: Timestamp::now(),
            heartbeat_at: Timestamp::now(),
            live,
            draining: false,
            program: Default::default(),
            load: Default::default(),
        };
        let workers = |count| look(queues.map(queue).into(), vec![worker(true); count]);
        let said = |look: &Look| {
            let text = Metrics::new().written(look, 1, Timestamp::now()).unwrap();
            queues.map(|queue| {
                let start = format!("windlass_queue_workers{{queue=\"{queue}\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&start)?.parse::<usize>().ok())
            })
        };
        assert_eq!(said(&workers(7)), [Some(7), Some(0)]);
        let most = StoreStatus::MOST_WORKERS;
        assert_eq!(said(&workers(most)), [Some(most), Some(0)]);
        assert_eq!(said(&workers(most + 1)), [Some(most), None]);
        let mut with_gone = vec![worker(true); 7];
        with_gone.resize(most + 1, worker(false));
        let with_gone = look(queues.map(queue).into(), with_gone);
        assert_eq!(said(&with_gone), [Some(7), Some(0)], "all live ones are known");
    }

    #[test]
    fn many_queues_make_no_more_series() {
        let named = |n: usize| QueueStats { name: format!("q{n:03}"), available: 2, ..QueueStats::default() };
        let queues = (0..MOST_QUEUES + 50).map(named).collect();
        let look = look(queues, Vec::new());
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
