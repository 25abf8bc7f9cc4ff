//! Costs: no window of a rate has more than its count, dear jobs start too, and what the rate allows is used.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{Args, ErrorKind, JobId, JobStore, NewJob, Outcome, QueueLimits, RateLimit};
use windlass_runtime::{Context, EngineHandle, WorkerEngine};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What jobs cost, and when which of them began.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Runs>>);

#[derive(Default)]
pub(crate) struct Runs {
    costs: HashMap<JobId, u32>,
    starts: Vec<(Instant, u32)>,
}

impl Log {
    pub(crate) fn add(&self, store: &FakeStore, kind: &'static str, priority: i16, costs: &[u32]) {
        let plain = NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("q").with_priority(priority);
        let job = |cost: &u32| plain.clone().with_cost(*cost);
        let jobs: Vec<_> = costs.iter().map(job).collect();
        let ids = store.lock().enqueue(&jobs, 0).unwrap();
        self.0.lock().unwrap().costs.extend(ids.into_iter().zip(costs.iter().copied()));
        store.announce();
    }

    pub(crate) fn begin(&self, context: &Context) {
        let mut runs = self.0.lock().unwrap();
        let cost = runs.costs[&context.id()];
        runs.starts.push((Instant::now(), cost));
    }

    fn handlers(&self, kind: &str) -> Handlers {
        let log = self.clone();
        Handlers::default().on(kind, move |context| {
            log.begin(&context);
            sleep(MS)
        })
    }

    fn batches(&self, most: usize) -> Handlers {
        let log = self.clone();
        Handlers::default().on_batch("row", (most, 20 * MS), None, move |jobs| {
            jobs.iter().for_each(|job| log.begin(job));
            async move { vec![Outcome::Complete(None); jobs.len()] }
        })
    }

    pub(crate) fn started(&self) -> usize {
        self.0.lock().unwrap().starts.len()
    }

    /// No window has more than its count, but for one job alone that costs more than a burst.
    pub(crate) fn check(&self, rate: &RateLimit) {
        let starts = &self.0.lock().unwrap().starts;
        for window in rate.windows() {
            for (nth, (from, first)) in starts.iter().enumerate() {
                let inside = starts[nth..].iter().take_while(|(at, _)| *at < *from + window.length);
                let costs: Vec<_> = inside.map(|(_, cost)| rate.cost(*cost)).collect();
                let sum: u32 = costs.iter().sum();
                let alone = costs.len() == 1 && *first > window.count;
                assert!(sum <= window.count || alone, "{costs:?} in {window:?}");
            }
        }
    }
}

/// A store as far away as a database is, with this limit.
pub(crate) async fn limited(rate: RateLimit) -> FakeStore {
    let store = FakeStore::new();
    store.plan(|_| Fault::Slow(MS));
    store.limit("q", &QueueLimits::default().with_rate(rate)).await.unwrap();
    store
}

async fn worker(store: &FakeStore, client: usize, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(Arc::new(store.seen_by(client)), config(20), Arc::new(handlers)).await.unwrap()
}

async fn finish(store: &FakeStore, engines: impl IntoIterator<Item = EngineHandle>) {
    let began = Instant::now();
    while !store.lock().all_completed() {
        assert!(began.elapsed() < 10 * HOUR, "they never end");
        sleep(10 * MS).await;
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_window_costs_more_than_the_rate_and_hardly_less() {
    let mut dice = fastrand::Rng::with_seed(5);
    for (workers, rate, most) in [
        (1, RateLimit::new(100, SECOND), 1),
        (1, RateLimit::new(100, SECOND), 20),
        (3, RateLimit::new(1_000, SECOND), 50),
        (2, RateLimit::new(200, SECOND).with_burst(40), 10),
    ] {
        let (store, log) = (limited(rate).await, Log::default());
        let costs: Vec<_> = (0..400).map(|_| dice.u32(1..=most)).collect();
        log.add(&store, "job", 0, &costs);
        let began = Instant::now();
        let mut engines = Vec::new();
        for client in 0..workers {
            engines.push(worker(&store, client, log.handlers("job")).await);
        }
        finish(&store, engines).await;
        log.check(&rate);
        let sum: u32 = costs.iter().sum();
        // At the end of a window less may be left than the next job costs, on each worker.
        let shortest = rate.windows().next().unwrap();
        let windows = f64::from(sum) / f64::from(shortest.count - (most - 1) / 2);
        let longest = shortest.length.mul_f64(windows * 1.1) + SECOND;
        assert!(began.elapsed() < longest, "{rate:?}, {most}: {:?}, not {longest:?}", began.elapsed());
    }
}

/// A job that costs as much as may start at once, while others run cheap ones without end.
#[tokio::test(start_paused = true)]
async fn a_dear_job_is_not_overtaken_for_ever() {
    let rate = RateLimit::new(100, SECOND).with_burst(20);
    let (store, log) = (limited(rate).await, Log::default());
    log.add(&store, "job", 0, &[1; 4_000]);
    let mut engines = vec![];
    for client in 0..3 {
        engines.push(worker(&store, client, log.handlers("job")).await);
    }
    sleep(2 * SECOND).await;
    let dear = || log.0.lock().unwrap().starts.iter().filter(|(_, cost)| *cost == 20).count();
    for nth in 1..=5 {
        log.add(&store, "job", -1, &[20]);
        let began = Instant::now();
        while dear() < nth {
            assert!(began.elapsed() < 2 * SECOND, "dear job {nth} did not start");
            sleep(10 * MS).await;
        }
    }
    assert!(log.started() < 4_000, "there were others all the time");
    finish(&store, engines).await;
    log.check(&rate);
}

#[tokio::test(start_paused = true)]
async fn what_costs_more_than_the_rate_takes_all_of_it() {
    for rate in [RateLimit::new(10, SECOND), RateLimit::new(40, 4 * SECOND).with_burst(10)] {
        let (store, log) = (limited(rate).await, Log::default());
        log.add(&store, "job", 0, &[3, 1_000, 1, 11, 10, 2, 1_000_000, 1, 1]);
        let engine = worker(&store, 0, log.handlers("job")).await;
        let began = Instant::now();
        finish(&store, [engine]).await;
        log.check(&rate);
        assert!(began.elapsed() < 30 * SECOND, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_what_its_jobs_cost() {
    let rate = RateLimit::new(20, SECOND);
    for cost in [1, 3, 7, 20, 30] {
        let (store, log) = (limited(rate).await, Log::default());
        log.add(&store, "row", 0, &[cost; 30]);
        let engine = worker(&store, 0, log.batches(5)).await;
        let began = Instant::now();
        finish(&store, [engine]).await;
        log.check(&rate);
        let windows = 30 / (20 / cost.min(20));
        assert!(began.elapsed() < SECOND.mul_f64(1.1) * (windows + 2), "{cost}: {:?}", began.elapsed());
    }
}

/// Where starts are rare what is handed back goes behind the others, so a dear job would never find enough of them.
#[tokio::test(start_paused = true)]
async fn a_dear_job_that_waits_for_long_keeps_its_turn() {
    let rate = RateLimit::new(10, 60 * SECOND).with_burst(2);
    let (store, log) = (limited(rate).await, Log::default());
    log.add(&store, "job", 0, &[1; 500]);
    let engines =
        [worker(&store, 0, log.handlers("job")).await, worker(&store, 1, log.handlers("job")).await];
    sleep(100 * SECOND).await;
    log.add(&store, "job", 0, &[6]);
    // It is the last of the backlog for now; when its turn comes, more have followed it.
    let began = Instant::now();
    while log.started() < 480 {
        sleep(SECOND).await;
    }
    log.add(&store, "job", 0, &[1; 500]);
    let dear = || log.0.lock().unwrap().starts.iter().any(|(_, cost)| *cost == 6);
    while !dear() {
        assert!(log.started() < 560, "{} cheap ones started in {:?}", log.started(), began.elapsed());
        sleep(SECOND).await;
    }
    finish(&store, engines).await;
    log.check(&rate);
}

/// What has to wait for long is held by one worker, and everything else stays available.
#[tokio::test(start_paused = true)]
async fn only_a_dear_job_is_held_for_long() {
    let (store, log) = (limited(RateLimit::new(10, HOUR)).await, Log::default());
    log.add(&store, "job", 0, &[2, 2, 6, 7, 3, 1]);
    let engines = [worker(&store, 0, log.handlers("job")).await];
    for (done, left) in [(3, 2), (5, 1), (6, 0)] {
        sleep(30 * SECOND).await;
        let queues = store.queues().await.unwrap();
        assert_eq!((queues[0].completed, queues[0].available), (done, left), "and one is held: {queues:?}");
        sleep(HOUR).await;
    }
    finish(&store, engines).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_costs_mean_nothing() {
    let (store, log) = (FakeStore::new(), Log::default());
    store.limit("q", &QueueLimits::default().with_concurrency(5)).await.unwrap();
    log.add(&store, "job", 0, &[1_000_000; 100]);
    let engine = worker(&store, 0, log.handlers("job")).await;
    let began = Instant::now();
    finish(&store, [engine]).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_rate_holds_while_replies_are_lost_and_leases_too() {
    let rate = RateLimit::new(50, SECOND);
    let (store, log) = (limited(rate).await, Log::default());
    let mut dice = fastrand::Rng::with_seed(7);
    let costs: Vec<_> = (0..300).map(|_| dice.u32(1..=30)).collect();
    store.plan(move |call| match dice.u32(0..20) {
        0 if call == Call::Share => Fault::LoseReply,
        1 if call == Call::Share => Fault::Fail(ErrorKind::Unavailable),
        2 if call == Call::Claim => Fault::LoseReply,
        3 | 4 if call == Call::Share => Fault::Slow(20 * MS),
        _ => Fault::Slow(MS),
    });
    log.add(&store, "job", 0, &costs);
    let mut engines = Vec::new();
    for client in 0..3 {
        engines.push(worker(&store, client, log.handlers("job")).await);
    }
    sleep(30 * SECOND).await;
    store.come_back();
    finish(&store, engines).await;
    log.check(&rate);
}
