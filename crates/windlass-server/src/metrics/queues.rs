//! What the store says of each queue.

use super::{MOST_QUEUES, REST, gauge};
use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::{collections::HashMap, sync::atomic::AtomicU64};
use windlass::{QueueStats, StoreStatus};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    queue: String,
    state: &'static str,
}

type Queues = Family<OfQueue, Gauge>;

#[derive(Default)]
struct Figures {
    available: Queues,
    no_handler: Queues,
    running: Queues,
    limit: Queues,
    paused: Queues,
    workers: Queues,
    oldest: Family<OfQueue, Gauge<f64, AtomicU64>>,
    no_handler_age: Family<OfQueue, Gauge<f64, AtomicU64>>,
    held: Family<OfState, Gauge>,
    dead: Family<OfState, Gauge>,
}

pub(super) fn register(registry: &mut Registry, queues: &[QueueStats], status: &StoreStatus, now: Timestamp) {
    let mut takers: HashMap<&str, i64> = HashMap::new();
    for queue in status.workers.iter().filter(|worker| worker.live).flat_map(|worker| &worker.queues) {
        *takers.entry(queue).or_default() += 1;
    }
    let figures = Figures::default();
    for (at, queue) in queues.iter().enumerate() {
        let name = if at < MOST_QUEUES { &queue.name } else { REST };
        let known = takers.get(queue.name.as_str()).copied();
        figures.add(name, queue, known.or((!may_have_more(status)).then_some(0)), now);
    }
    figures.register(registry);
}

/// Whether live workers may be missing in the list, which has those first: of a queue with none there nobody knows whether it has one.
pub(crate) fn may_have_more(status: &StoreStatus) -> bool {
    status.more_workers && status.workers.last().is_some_and(|worker| worker.live)
}

impl Figures {
    /// Those that several queues share are sums. But the ages are those of the oldest, and the workers those of the queue that has fewest; both of queues
    /// that have jobs and are not paused, so that somebody is called for those alone, and these are paused where all of them are.
    fn add(&self, name: &str, queue: &QueueStats, workers: Option<i64>, now: Timestamp) {
        let of = OfQueue { queue: name.to_owned() };
        let is_shared = name == REST;
        let fewest = |family: &Queues, value: i64| {
            let fewest = family.get(&of).map_or(value, |known| known.get().min(value));
            family.get_or_create(&of).set(fewest);
        };
        fewest(&self.paused, queue.paused.into());
        if let Some(workers) = workers.filter(|_| !is_shared || queue.available > 0 && !queue.paused) {
            fewest(&self.workers, workers);
        }
        self.available.get_or_create(&of).inc_by(gauge(queue.available));
        self.no_handler.get_or_create(&of).inc_by(gauge(queue.no_handler));
        self.running.get_or_create(&of).inc_by(gauge(queue.running));
        if let Some(limit) = queue.limits.concurrency.filter(|_| !is_shared) {
            self.limit.get_or_create(&of).set(limit.into());
        }
        for (family, since) in
            [(&self.oldest, queue.oldest_available_at), (&self.no_handler_age, queue.oldest_no_handler_at)]
        {
            let since = since.filter(|_| !is_shared || !queue.paused);
            let waited = since.map_or(0.0, |at| now.duration_since(at).as_secs_f64());
            let age = family.get_or_create(&of);
            age.set(age.get().max(waited));
        }
        for (family, state, count) in [
            (&self.held, "scheduled", queue.scheduled),
            (&self.held, "retryable", queue.retryable),
            (&self.dead, "cancelled", queue.cancelled),
            (&self.dead, "discarded", queue.discarded),
        ] {
            family.get_or_create(&OfState { queue: name.to_owned(), state }).inc_by(gauge(count));
        }
    }

    fn register(self, registry: &mut Registry) {
        let help = "Jobs ready to be claimed; large counts may be estimates";
        registry.register("queue_available_jobs", help, self.available);
        let help = "Of the available jobs those that wait for a worker that knows their kind";
        registry.register("queue_no_handler_jobs", help, self.no_handler);
        registry.register("queue_running_jobs", "Jobs held by live workers", self.running);
        let help = "How many jobs may run at once, where the queue has such a limit";
        registry.register("queue_limit_jobs", help, self.limit);
        registry.register("queue_paused", "1 where nothing is claimed", self.paused);
        registry.register("queue_workers", "Live workers that take jobs of the queue", self.workers);
        registry.register_with_unit(
            "queue_oldest_age",
            "Since how long the job that waits longest could have been claimed",
            Unit::Seconds,
            self.oldest,
        );
        registry.register_with_unit(
            "queue_no_handler_age",
            "Since how long the first job waits that no worker knew so far",
            Unit::Seconds,
            self.no_handler_age,
        );
        registry.register("held_jobs", "Jobs that wait for their time or their next attempt", self.held);
        registry.register("dead_jobs", "Cancelled and discarded jobs that are kept", self.dead);
    }
}
