//! Rates of keys: whoever waits works on when the rate allows more, not when it polls next.

use crate::fake::{Handlers, config};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use windlass_core::{
    Args, JobStore, KeyLimit, KeyLimitsChange, NewJob, RateLimit, Store, Wake, Wakeup, wrap_store,
};
use windlass_memory::MemoryStore;
use windlass_runtime::{WorkerConfig, WorkerEngine};

const PERIOD: Duration = Duration::from_secs(5);
/// How much later than the rate allows a job may start: a worker that does not lead looks a little later.
const SOON: Duration = Duration::from_millis(50);

type Starts = Arc<Mutex<Vec<Instant>>>;

/// A store that hints at no end of a job.
struct Deaf {
    store: Arc<dyn Store>,
    starts: Starts,
}

struct FewHints {
    all: Box<dyn Wakeup>,
    starts: Starts,
}

#[async_trait::async_trait]
impl Wakeup for FewHints {
    async fn arm(&mut self) {
        self.all.arm().await;
    }

    async fn wait(&mut self, timeout: Duration) -> Wake {
        let wake = self.all.wait(timeout).await;
        let has_just_ended = self.starts.lock().unwrap().last().is_some_and(|at| at.elapsed() < PERIOD / 2);
        if has_just_ended { Wake::Timeout } else { wake }
    }

    fn disarm(&mut self) {
        self.all.disarm();
    }
}

wrap_store! {
    impl JobStore for Deaf, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister report checkpoints claim settle suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events ended ends close]

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(FewHints { all: self.store.wakeup(), starts: Arc::clone(&self.starts) })
    }
}

/// A job of its key starts a period after the one before ended, in whichever worker, though all of them poll seldom; also where no hint leads to the claim that finds the rate
/// spent.
#[tokio::test(start_paused = true)]
async fn jobs_start_as_soon_as_the_rate_allows() {
    for (count, deaf) in [(1, false), (3, false), (1, true), (3, true)] {
        let store = MemoryStore::new();
        let limit = KeyLimit::default().with_rate(RateLimit::new(1, PERIOD));
        store.limit_keys("q", &KeyLimitsChange::Default(limit)).await.unwrap();
        let starts = Starts::default();
        let job = NewJob::new("rated", Args::parse("{}").unwrap()).with_queue("q").with_key("a");
        let jobs = vec![job; 5];
        if deaf {
            store.enqueue(&jobs).await.unwrap();
        }
        let mut engines = Vec::new();
        for _ in 0..count {
            let (starts, seen) = (Arc::clone(&starts), Arc::clone(&starts));
            let handlers = Handlers::default().on("rated", move |_| {
                seen.lock().unwrap().push(Instant::now());
                std::future::ready(())
            });
            let config = WorkerConfig { poll_interval: Duration::from_secs(60), ..config(2) };
            let store: Arc<dyn Store> = Arc::new(store.clone());
            let store = if deaf { Arc::new(Deaf { store, starts }) } else { store };
            engines.push(WorkerEngine::start(store, config, Arc::new(handlers)).await.unwrap());
        }
        if !deaf {
            tokio::time::sleep(PERIOD).await;
            store.enqueue(&jobs).await.unwrap();
        }
        let began = Instant::now();
        tokio::time::sleep(PERIOD * 5).await;
        let starts = starts.lock().unwrap().clone();
        assert_eq!(starts.len(), 5, "after {:?}: {starts:?}", began.elapsed());
        for pair in starts.windows(2) {
            let waited = pair[1] - pair[0];
            assert!(waited >= PERIOD && waited < PERIOD + SOON, "{count} workers, {deaf}: {waited:?}");
        }
        for engine in engines {
            engine.shutdown().await;
        }
    }
}
