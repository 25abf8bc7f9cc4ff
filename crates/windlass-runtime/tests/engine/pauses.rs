//! A paused queue with limits: what workers claimed ahead goes back, and starts when the queue is resumed.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};
use windlass_core::{
    Args, JobStore, KeyLimit, KeyLimitsChange, NewJob, Outcome, QueueLimits, QueueStats, RateLimit,
};
use windlass_runtime::{
    EngineHandle, WorkerEngine,
    remote::{HandIn, QueueConfig, RemoteSpec, RemoteWorker},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A store as far away as a database is, with these limits of a queue, and a worker that notes what it starts.
struct World {
    store: FakeStore,
    started: Arc<AtomicUsize>,
    /// From when on jobs take a minute.
    slow: Arc<AtomicBool>,
    engines: Mutex<Vec<EngineHandle>>,
}

impl World {
    async fn of(limits: QueueLimits) -> Self {
        let store = FakeStore::new();
        store.plan(|_| Fault::Slow(MS));
        store.limit("q", &limits).await.unwrap();
        Self { store, started: Arc::default(), slow: Arc::default(), engines: Mutex::default() }
    }

    fn add(&self, jobs: usize, change: impl Fn(NewJob) -> NewJob) {
        let plain = NewJob::new("job", Args::parse("{}").unwrap()).with_queue("q");
        self.store.lock().enqueue(&vec![change(plain); jobs], 0).unwrap();
        self.store.announce();
    }

    async fn work(&self) {
        let (started, slow) = (Arc::clone(&self.started), Arc::clone(&self.slow));
        let handlers = Handlers::default().on("job", move |_| {
            started.fetch_add(1, Ordering::Relaxed);
            sleep(if slow.load(Ordering::Relaxed) { MINUTE } else { MS })
        });
        let seen = Arc::new(self.store.seen_by(0));
        let engine = WorkerEngine::start(seen, config(20), Arc::new(handlers)).await.unwrap();
        self.engines.lock().unwrap().push(engine);
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    async fn until(&self, what: &str, reached: impl Fn(&QueueStats, usize) -> bool) {
        let wait = async {
            loop {
                let queues = self.store.queues().await.unwrap();
                if queues.first().is_some_and(|queue| reached(queue, self.started())) {
                    return;
                }
                sleep(10 * MS).await;
            }
        };
        assert!(timeout(20 * MINUTE, wait).await.is_ok(), "not reached: {what}");
    }

    async fn held(&self) -> u64 {
        self.store.queues().await.unwrap()[0].running
    }

    async fn pause(&self, paused: bool) {
        self.store.pause("q", paused).await.unwrap();
    }

    async fn end(self) {
        for engine in self.engines.into_inner().unwrap() {
            engine.shutdown().await;
        }
    }
}

fn rate(count: u32, period: Duration) -> QueueLimits {
    QueueLimits::default().with_rate(RateLimit::new(count, period))
}

/// What waits for a permission goes back at once, and starts after the pause.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_start_does_not_start() {
    let world = World::of(rate(2, SECOND)).await;
    world.add(20, |job| job);
    world.work().await;
    world
        .until("one waits", |queue, started| started == 2 && queue.running == 1 && queue.completed == 2)
        .await;
    world.pause(true).await;
    world.until("it goes back", |queue, _| queue.running == 0).await;
    sleep(3 * MINUTE).await;
    assert_eq!((world.started(), world.held().await), (2, 0));
    world.pause(false).await;
    world.until("all done", |queue, _| queue.completed == 20).await;
    world.end().await;
}

/// One that costs more than 1 is else kept, however long it waits.
#[tokio::test(start_paused = true)]
async fn a_dear_job_that_waits_goes_back() {
    let world = World::of(rate(10, 60 * SECOND)).await;
    world.add(3, |job| job.with_cost(10));
    world.work().await;
    world.until("one waits", |queue, _| (queue.completed, queue.running) == (1, 1)).await;
    world.pause(true).await;
    world.until("it goes back", |queue, _| queue.running == 0).await;
    sleep(3 * MINUTE).await;
    assert_eq!(world.started(), 1);
    world.pause(false).await;
    world.until("all done", |queue, _| queue.completed == 3).await;
    world.end().await;
}

/// Behind jobs that fill the limit, with places free in the worker; also where the queue limits its keys.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_slot_does_not_start() {
    for (limits, keyed) in
        [(QueueLimits::default(), false), (QueueLimits::default(), true), (rate(1_000, SECOND), false)]
    {
        let world = World::of(limits.with_concurrency(2)).await;
        if keyed {
            let change = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(1_000));
            world.store.limit_keys("q", &change).await.unwrap();
        }
        world.add(3_000, |job| if keyed { job.with_key("k") } else { job });
        world.work().await;
        world.until("a pace", |_, started| started > 200).await;
        world.slow.store(true, Ordering::Relaxed);
        sleep(100 * MS).await;
        let started = world.started();
        assert!(world.held().await > 2, "some were claimed ahead");
        world.pause(true).await;
        world.until("only what runs is held", |queue, _| queue.running == 2).await;
        world.until("what ran ends", |queue, _| queue.running == 0).await;
        sleep(3 * MINUTE).await;
        assert_eq!(world.started(), started, "keyed: {keyed}");
        world.slow.store(false, Ordering::Relaxed);
        world.pause(false).await;
        world.until("all done", |queue, _| queue.completed == 3_000).await;
        world.end().await;
    }
}

/// A paused queue is asked for no more often than heartbeats are sent.
#[tokio::test(start_paused = true)]
async fn a_pause_is_quiet() {
    let world = World::of(rate(2, SECOND).with_concurrency(2)).await;
    world.slow.store(true, Ordering::Relaxed);
    world.add(20, |job| job);
    world.work().await;
    world.until("two run", |_, started| started == 2).await;
    world.pause(true).await;
    world.until("only what runs is held", |queue, _| queue.running == 2).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&asked);
    world.store.plan(move |call| {
        calls.fetch_add(usize::from(call == Call::Share), Ordering::Relaxed);
        Fault::Slow(MS)
    });
    sleep(MINUTE / 2).await;
    let (beats, asked) = (30 / (config(20).lease / 3).as_secs().max(1), asked.load(Ordering::Relaxed));
    assert!(asked as u64 <= beats + 5, "{asked} calls for {beats} heartbeats");
    world.end().await;
}

/// A worker that runs elsewhere and waits for jobs gets none that was claimed before the pause.
#[tokio::test(start_paused = true)]
async fn a_worker_elsewhere_hands_back_what_waits() {
    let world = World::of(rate(10, 60 * SECOND)).await;
    world.add(3, |job| job.with_cost(10));
    let queues = vec![QueueConfig { queue: "q".to_owned(), concurrency: 5 }];
    let spec = RemoteSpec { name: "r".to_owned(), queues, lease: 20 * MINUTE, ..RemoteSpec::default() };
    let worker = RemoteWorker::register(world.store.shared(), spec).await.unwrap();
    let wanting = worker.wanting(None);
    let take = async || {
        let taken = wanting.take(&worker.losses()).await.unwrap();
        let done = taken.iter().map(|job| HandIn { ticket: job.ticket, outcome: Outcome::Complete(None) });
        worker.settle(done.collect()).await.unwrap();
        taken.len()
    };
    // Who waits for jobs takes again when there may be more.
    while take().await == 0 {
        sleep(MS).await;
    }
    while world.held().await == 0 {
        assert_eq!(take().await, 0, "the first used all starts");
        sleep(MS).await;
    }
    world.pause(true).await;
    worker.told();
    world.until("it goes back", |queue, _| queue.running == 0).await;
    for _ in 0..180 {
        assert_eq!(take().await, 0);
        sleep(SECOND).await;
    }
    world.pause(false).await;
    worker.told();
    for _ in 0..2 {
        while take().await == 0 {
            sleep(MS).await;
        }
    }
    worker.end().await.unwrap();
}
