//! Rates of keys: whoever waits works on when the rate allows more, not when it polls next.

use crate::fake::{Handlers, config};
use async_trait::async_trait;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use windlass_core::{
    Args, JobStore, KeyLimit, KeyLimitsChange, NewJob, Promoted, RateLimit, Result, Wake, Wakeup, wrap_store,
};
use windlass_memory::MemoryStore;
use windlass_runtime::{WorkerConfig, WorkerEngine};

const SECOND: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(5);
/// How much later than the rate allows a job may start: a worker that does not lead looks a little later.
const SOON: Duration = Duration::from_millis(50);

/// A job of its key starts a period after the one before ended, in whichever worker, though all of them poll seldom.
#[tokio::test(start_paused = true)]
async fn jobs_start_as_soon_as_the_rate_allows() {
    for count in [1, 3] {
        starts_in_time(count, Duration::ZERO, true).await;
    }
}

/// Also where no hint led to the claim that finds the rate spent: jobs were there before the workers, and each takes a while.
#[tokio::test(start_paused = true)]
async fn so_they_do_when_nothing_announced_them() {
    for count in [1, 3] {
        starts_in_time(count, 2 * SECOND, false).await;
    }
}

/// So many workers work jobs that take so long, which come when the workers idle, or were there before.
async fn starts_in_time(count: usize, takes: Duration, come_later: bool) {
    let store = MemoryStore::new();
    let limit = KeyLimit::default().with_rate(RateLimit::new(1, PERIOD));
    store.limit_keys("q", &KeyLimitsChange::Default(limit)).await.unwrap();
    let job = NewJob::new("rated", Args::parse("{}").unwrap()).with_queue("q").with_key("a");
    let jobs = vec![job; 5];
    if !come_later {
        store.enqueue(&jobs).await.unwrap();
    }
    let starts = Arc::new(Mutex::new(Vec::new()));
    let mut engines = Vec::new();
    for _ in 0..count {
        let starts = Arc::clone(&starts);
        let handlers = Handlers::default().on("rated", move |_| {
            starts.lock().unwrap().push(Instant::now());
            tokio::time::sleep(takes)
        });
        let config = WorkerConfig { poll_interval: Duration::from_secs(60), ..config(2) };
        let store = Arc::new(store.clone());
        engines.push(WorkerEngine::start(store, config, Arc::new(handlers)).await.unwrap());
    }
    if come_later {
        tokio::time::sleep(PERIOD).await;
        store.enqueue(&jobs).await.unwrap();
    }
    let began = Instant::now();
    tokio::time::sleep((takes + PERIOD) * 5).await;
    let starts = starts.lock().unwrap().clone();
    assert_eq!(starts.len(), 5, "after {:?}: {starts:?}", began.elapsed());
    for pair in starts.windows(2) {
        let waited = pair[1] - pair[0] - takes;
        assert!(waited >= PERIOD && waited < PERIOD + SOON, "{count} workers: {waited:?}");
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

/// Tells workers of what promotions free, and of nothing else.
struct Quiet {
    store: Arc<MemoryStore>,
    freed: Arc<Notify>,
}

wrap_store! {
    impl JobStore for Quiet, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available queues_by history events status close]

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        let mut changes = self.store.wakeup();
        changes.arm().await;
        let promoted = self.store.promote(limit).await;
        if changes.wait(Duration::ZERO).await == Wake::Hint {
            self.freed.notify_one();
        }
        promoted
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(QuietWakeup(Arc::clone(&self.freed)))
    }
}

struct QuietWakeup(Arc<Notify>);

#[async_trait]
impl Wakeup for QuietWakeup {
    async fn arm(&mut self) {}

    async fn wait(&mut self, longest: Duration) -> Wake {
        timeout(longest, self.0.notified()).await.map_or(Wake::Timeout, |()| Wake::Hint)
    }

    fn disarm(&mut self) {}
}

/// The claim that finds nothing for now says when there is more. Nothing else would have the promoter ask in time.
#[tokio::test(start_paused = true)]
async fn a_claim_has_the_promoter_ask_when_the_rate_allows_more() {
    let store = Arc::new(MemoryStore::new());
    let limit = KeyLimit::default().with_rate(RateLimit::new(1, PERIOD));
    store.limit_keys("q", &KeyLimitsChange::Default(limit)).await.unwrap();
    let job = NewJob::new("rated", Args::parse("{}").unwrap()).with_queue("q").with_key("a");
    store.enqueue(&vec![job; 3]).await.unwrap();
    let (starts, seen) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (noted, started) = (Arc::clone(&starts), Arc::clone(&seen));
    let handlers = Handlers::default().on("rated", move |_| {
        noted.lock().unwrap().push(Instant::now());
        started.notify_one();
        std::future::ready(())
    });
    // Who polls finds no more before an hour.
    let config = WorkerConfig { poll_interval: Duration::from_secs(3_600), ..config(2) };
    let quiet = Arc::new(Quiet { store, freed: Arc::default() });
    let engine = WorkerEngine::start(quiet, config, Arc::new(handlers)).await.unwrap();
    while starts.lock().unwrap().len() < 3 {
        seen.notified().await;
    }
    let starts = starts.lock().unwrap().clone();
    assert!(starts[2] - starts[0] < 2 * (PERIOD + SOON), "{starts:?}");
    engine.shutdown().await;
}
