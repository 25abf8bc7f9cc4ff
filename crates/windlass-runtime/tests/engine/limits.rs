//! Limits of a queue: no instant and no window has too many, over all workers, and what a limit allows is used.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{
    Args, ErrorKind, JobState, JobStore, NewJob, QueueLimits, RateLimit, Share, ShareRequest, Store,
    wrap_store,
};
use windlass_memory::MemoryStore;
use windlass_runtime::{EngineHandle, WorkerConfig, WorkerEngine};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What ran when.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Runs>>);

#[derive(Default)]
struct Runs {
    running: usize,
    peak: usize,
    starts: Vec<Instant>,
}

impl Log {
    fn handlers(&self, kind: &str, takes: Duration) -> Handlers {
        let log = self.clone();
        Handlers::default().on(kind, move |_| {
            let log = log.clone();
            async move {
                log.begin();
                sleep(takes).await;
                log.0.lock().unwrap().running -= 1;
            }
        })
    }

    fn begin(&self) {
        let mut runs = self.0.lock().unwrap();
        runs.running += 1;
        runs.peak = runs.peak.max(runs.running);
        runs.starts.push(Instant::now());
    }

    /// The most that ran at once since this was asked last.
    fn peak(&self) -> usize {
        let mut runs = self.0.lock().unwrap();
        let running = runs.running;
        std::mem::replace(&mut runs.peak, running)
    }

    /// The most starts in a window.
    fn most_in(&self, window: Duration) -> usize {
        let starts = &self.0.lock().unwrap().starts;
        let in_window =
            |from: &Instant| starts.iter().filter(|at| (*from..*from + window).contains(at)).count();
        starts.iter().map(in_window).max().unwrap_or(0)
    }
}

/// A store as far away as a database is.
fn store() -> FakeStore {
    let store = FakeStore::new();
    store.plan(|_| Fault::Slow(MS));
    store
}

async fn workers(store: &FakeStore, count: usize, handlers: impl Fn() -> Handlers) -> Vec<EngineHandle> {
    let mut engines = Vec::new();
    for client in 0..count {
        let seen = Arc::new(store.seen_by(client));
        engines.push(WorkerEngine::start(seen, config(20), Arc::new(handlers())).await.unwrap());
    }
    engines
}

fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits::default().with_concurrency(concurrency)
}

async fn finish(store: &FakeStore, engines: Vec<EngineHandle>) {
    store.until("all done", |model| model.all_completed()).await;
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_run_than_the_limit_and_hardly_fewer() {
    for (workers_count, limit) in [(1, 1), (1, 7), (3, 5), (4, 30), (2, 1)] {
        let (store, log) = (store(), Log::default());
        store.limit("q", &at_once(limit)).await.unwrap();
        store.add("q", "job", 100 * limit as usize);
        let engines = workers(&store, workers_count, || log.handlers("job", 10 * MS)).await;
        let began = Instant::now();
        finish(&store, engines).await;
        assert_eq!(log.peak(), limit.min(20 * workers_count as u32) as usize, "{workers_count} workers");
        let (took, least) = (began.elapsed(), 100 * 10 * MS * limit / limit.min(20 * workers_count as u32));
        assert!(took < least.mul_f64(1.1) + 100 * MS, "{workers_count} workers, limit {limit}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_can_be_set_changed_and_taken_away_while_jobs_run() {
    let (store, log) = (store(), Log::default());
    store.add("q", "job", 3_000);
    let engines = workers(&store, 2, || log.handlers("job", 50 * MS)).await;
    sleep(SECOND).await;
    assert_eq!(log.peak(), 40);
    for (limit, peak) in [(Some(4), 4), (Some(1), 1), (Some(16), 16), (None, 40), (Some(39), 39)] {
        store.limit("q", &limit.map_or(QueueLimits::default(), at_once)).await.unwrap();
        sleep(200 * MS).await;
        log.peak();
        sleep(SECOND).await;
        assert_eq!(log.peak(), peak, "{limit:?}");
    }
    finish(&store, engines).await;
}

#[tokio::test(start_paused = true)]
async fn no_window_has_more_starts_than_the_rate_and_hardly_fewer() {
    let burst = RateLimit::new(200, SECOND).with_burst(40);
    for (workers_count, rate) in
        [(1, RateLimit::new(100, SECOND)), (3, RateLimit::new(1_000, SECOND)), (2, burst)]
    {
        let (store, log) = (store(), Log::default());
        store.limit("q", &QueueLimits::default().with_rate(rate)).await.unwrap();
        let jobs = 8 * rate.count as usize;
        store.add("q", "job", jobs);
        let engines = workers(&store, workers_count, || log.handlers("job", MS)).await;
        let began = Instant::now();
        finish(&store, engines).await;
        for window in rate.windows() {
            let most = log.most_in(window.length);
            assert!(most <= window.count as usize, "{most} in {window:?}");
        }
        // The first window's count starts at once; each of the others takes a window and its grace.
        let shortest = rate.windows().next().unwrap();
        let least = shortest.length * (jobs as u32 / shortest.count - 1);
        assert!(began.elapsed() >= least, "{rate:?}: {:?}", began.elapsed());
        assert!(began.elapsed() < least.mul_f64(1.1) + SECOND / 2, "{rate:?}: {:?}", began.elapsed());
    }
}

/// Waiting for more slots than there are does not put off the next start.
#[tokio::test(start_paused = true)]
async fn both_limits_hold_and_neither_idles() {
    let (store, log) = (store(), Log::default());
    let rate = RateLimit::new(1_000, 60 * SECOND);
    store.limit("q", &at_once(2).with_rate(rate)).await.unwrap();
    store.add("q", "job", 40);
    let engines = workers(&store, 1, || log.handlers("job", 300 * MS)).await;
    let began = Instant::now();
    finish(&store, engines).await;
    assert_eq!(log.peak(), 2);
    assert!(began.elapsed() < (20 * 300 * MS).mul_f64(1.1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn few_starts_an_hour_hold_no_jobs_back_meanwhile() {
    let (store, log) = (store(), Log::default());
    let hourly = RateLimit::new(2, 3_600 * SECOND);
    store.limit("q", &QueueLimits::default().with_rate(hourly)).await.unwrap();
    store.add("q", "job", 6);
    let engines = workers(&store, 2, || log.handlers("job", MS)).await;
    sleep(60 * SECOND).await;
    let queues = store.queues().await.unwrap();
    assert_eq!((queues[0].completed, queues[0].available, queues[0].running), (2, 4, 0));
    sleep(3_600 * SECOND).await;
    assert_eq!(store.queues().await.unwrap()[0].completed, 4);
    store.limit("q", &QueueLimits::default()).await.unwrap();
    finish(&store, engines).await;
}

/// Jobs are not held while the next start is far, and are there when it comes.
#[tokio::test(start_paused = true)]
async fn a_start_every_few_seconds_is_used() {
    let (store, log) = (store(), Log::default());
    store.limit("q", &QueueLimits::default().with_rate(RateLimit::new(1, 5 * SECOND))).await.unwrap();
    store.add("q", "job", 5);
    let engines = workers(&store, 2, || log.handlers("job", MS)).await;
    let began = Instant::now();
    finish(&store, engines).await;
    assert!(began.elapsed() < (4 * 5 * SECOND).mul_f64(1.1) + SECOND / 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_while_replies_are_lost_and_leases_too() {
    let (store, log) = (store(), Log::default());
    store.limit("q", &at_once(5)).await.unwrap();
    store.add("q", "job", 2_000);
    let mut dice = fastrand::Rng::with_seed(7);
    store.plan(move |call| match dice.u32(0..20) {
        0 if call == Call::Share => Fault::LoseReply,
        1 if call == Call::Share => Fault::Fail(ErrorKind::Unavailable),
        2 if call == Call::Claim => Fault::LoseReply,
        3 | 4 if call == Call::Share => Fault::Slow(20 * MS),
        _ => Fault::Slow(MS),
    });
    let engines = workers(&store, 3, || log.handlers("job", 10 * MS)).await;
    sleep(20 * SECOND).await;
    assert!(log.peak() <= 5);
    store.come_back();
    finish(&store, engines).await;
    assert!(log.peak() <= 5);
}

/// Who changes the limits of one queue in a transaction that stays open costs the worker that queue and no other; nor does it ask without end.
#[tokio::test(start_paused = true)]
async fn a_locked_queue_costs_no_other() {
    let (store, log, asked) = (store(), Log::default(), Arc::new(AtomicUsize::new(0)));
    let calls = Arc::clone(&asked);
    store.plan(move |call| {
        calls.fetch_add(usize::from(call == Call::Share), Ordering::Relaxed);
        Fault::Slow(MS)
    });
    for queue in ["q", "locked"] {
        store.limit(queue, &at_once(2)).await.unwrap();
        store.add(queue, "job", 20);
    }
    store.lock_limits(&["locked"]);
    let config = config(20).with_queue("locked", 20);
    let handlers = Arc::new(log.handlers("job", 10 * MS));
    let engine = WorkerEngine::start(Arc::new(store.seen_by(0)), config, handlers).await.unwrap();
    let began = Instant::now();
    store.until("those of the other", |model| model.count(JobState::Completed) == 20).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    let before = asked.load(Ordering::Relaxed);
    sleep(60 * SECOND).await;
    let asked = asked.load(Ordering::Relaxed) - before;
    assert!((1..600).contains(&asked), "{asked} calls in a minute");
    assert_eq!(store.model().count(JobState::Completed), 20, "the worker has no share of the locked one");
    store.lock_limits(&[]);
    finish(&store, vec![engine]).await;
}

/// A queue that is locked while the worker runs jobs of it: no more start than it had slots for, and what others want of them it is not asked for without end.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_locked_later_lets_nobody_exceed_its_limit() {
    let (store, log, asked) = (store(), Log::default(), Arc::new(AtomicUsize::new(0)));
    store.limit("q", &at_once(5)).await.unwrap();
    store.add("q", "job", 2_000);
    let engines = workers(&store, 3, || log.handlers("job", 10 * MS)).await;
    let calls = Arc::clone(&asked);
    store.plan(move |call| {
        calls.fetch_add(usize::from(call == Call::Share), Ordering::Relaxed);
        Fault::Slow(MS)
    });
    for _ in 0..20 {
        store.lock_limits(&["q"]);
        sleep(SECOND).await;
        store.lock_limits(&[]);
        sleep(100 * MS).await;
    }
    assert!(asked.load(Ordering::Relaxed) < 22 * 3 * 100, "{asked:?} calls in 22 s");
    finish(&store, engines).await;
    assert_eq!(log.peak(), 5);
}

#[tokio::test(start_paused = true)]
async fn slots_go_to_whoever_has_work_and_come_free_with_their_worker() {
    let (store, log) = (store(), Log::default());
    store.limit("q", &at_once(20)).await.unwrap();
    let mut engines = workers(&store, 2, || log.handlers("job", 100 * MS)).await;
    store.add("q", "job", 400);
    sleep(SECOND).await;
    log.peak();
    engines.pop().unwrap().shutdown().await;
    sleep(SECOND / 2).await;
    log.peak();
    sleep(SECOND / 2).await;
    assert_eq!(log.peak(), 20, "the other has all of them");
    finish(&store, engines).await;
}

/// One slot, and a worker whose kind nobody else knows: it has its turn.
#[tokio::test(start_paused = true)]
async fn no_worker_starves() {
    let (store, log) = (store(), Log::default());
    store.limit("q", &at_once(1)).await.unwrap();
    store.add("q", "rare", 3);
    store.add("q", "common", 2_000);
    let common = workers(&store, 2, || log.handlers("common", 10 * MS)).await;
    sleep(SECOND).await;
    let rare = Log::default();
    let only = WorkerEngine::start(
        Arc::new(store.seen_by(9)),
        WorkerConfig { name: "rare".into(), ..config(20) },
        Arc::new(rare.handlers("rare", 10 * MS)),
    );
    let only = only.await.unwrap();
    sleep(20 * SECOND).await;
    assert_eq!(rare.0.lock().unwrap().starts.len(), 3);
    finish(&store, common.into_iter().chain([only]).collect()).await;
}

/// Notes of how many queues each call asks for shares.
struct Counting {
    store: Arc<dyn Store>,
    asked: Arc<Mutex<Vec<usize>>>,
}

wrap_store! {
    impl JobStore for Counting, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister report checkpoints claim settle suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits job jobs any_available coming queues_by history status events ended ends wakeup close]

    async fn share(&self, request: &ShareRequest) -> windlass_core::Result<Vec<Option<Share>>> {
        self.asked.lock().unwrap().push(request.queues.len());
        self.store.share(request).await
    }
}

/// A server of PostgreSQL keeps two locks of each queue until the call ends: a thousand at once were a third of what it has for all sessions.
#[tokio::test(start_paused = true)]
async fn shares_of_many_queues_are_asked_for_in_parts() {
    const QUEUES: usize = 250;
    let store = MemoryStore::new();
    let mut config = WorkerConfig::default();
    for queue in (0..QUEUES).map(|n| format!("q{n}")) {
        store.limit(&queue, &at_once(1)).await.unwrap();
        store
            .enqueue(&[NewJob::new("job", Args::parse("{}").unwrap()).with_queue(queue.clone())])
            .await
            .unwrap();
        config = config.with_queue(&queue, 1);
    }
    let (log, asked) = (Log::default(), Arc::default());
    let counting = Counting { store: Arc::new(store), asked: Arc::clone(&asked) };
    let handlers = log.handlers("job", 10 * MS);
    let engine = WorkerEngine::start(Arc::new(counting), config, Arc::new(handlers)).await.unwrap();
    sleep(10 * SECOND).await;
    assert_eq!(log.0.lock().unwrap().starts.len(), QUEUES);
    let most = asked.lock().unwrap().iter().copied().max();
    assert_eq!(most, Some(100));
    engine.shutdown().await;
}
