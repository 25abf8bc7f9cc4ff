//! Short delays: on time also while no worker is idle, so that nothing announces them.

use crate::fake::{FakeStore, Handlers, config};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{Args, JobStore, NewJob};
use windlass_memory::MemoryStore;
use windlass_runtime::{WorkerConfig, WorkerEngine};

const DELAY: Duration = Duration::from_millis(100);
const JOBS: usize = 50;

fn job(kind: &'static str, queue: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{}").unwrap()).with_queue(queue)
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_starts_delayed_jobs_on_time() {
    let store = MemoryStore::new();
    store.enqueue(&vec![job("busy", "busy"); 20_000]).await.unwrap();
    let starts = Arc::<Mutex<Vec<Instant>>>::default();
    let seen = Arc::clone(&starts);
    let handlers =
        Handlers::default().on("busy", |_| sleep(Duration::from_millis(10))).on("late", move |_| {
            seen.lock().unwrap().push(Instant::now());
            std::future::ready(())
        });
    let second = Duration::from_secs(1);
    let config = WorkerConfig { poll_interval: second, ..WorkerConfig::default() };
    // Of one queue: a worker with free slots in another one would be told.
    let config = config.with_queue("busy", 4);
    let engine = WorkerEngine::start(Arc::new(store.clone()), config, Arc::new(handlers)).await.unwrap();
    sleep(5 * second).await;
    let mut late = Vec::new();
    for nth in 0..JOBS {
        let due = Instant::now() + DELAY;
        store.enqueue(&[job("late", "busy").with_priority(-1).with_delay(DELAY)]).await.unwrap();
        while starts.lock().unwrap().len() <= nth {
            sleep(Duration::from_millis(1)).await;
        }
        late.push(starts.lock().unwrap()[nth].saturating_duration_since(due));
        sleep(Duration::from_millis(130)).await;
    }
    // The first may wait for a poll: nobody knew that there would be any.
    assert!(late[1..].iter().all(|late| *late < second / 5), "{late:?}");
    engine.abort_now();
}

/// A worker that does not lead looks seldom for due jobs. One that begins to lead looks at once: perhaps nobody else does.
#[tokio::test(start_paused = true)]
async fn who_begins_to_lead_knows_what_is_due() {
    let store = FakeStore::new();
    let starts = Arc::<Mutex<Vec<Instant>>>::default();
    let seen = Arc::clone(&starts);
    let handlers = Handlers::default().on("late", move |_| {
        seen.lock().unwrap().push(Instant::now());
        std::future::ready(())
    });
    let config = WorkerConfig { poll_interval: Duration::from_secs(1), ..config(4) };
    let engine = WorkerEngine::start(Arc::new(store.clone()), config, Arc::new(handlers)).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let delay = Duration::from_secs(2);
    let due = Instant::now() + delay;
    // Nobody hears of it.
    store.model().enqueue(&[job("late", "q").with_delay(delay)], 0).unwrap();
    while starts.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let late = starts.lock().unwrap()[0].saturating_duration_since(due);
    assert!(late < Duration::from_millis(100), "{late:?}");
    engine.abort_now();
}
