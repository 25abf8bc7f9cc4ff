//! Batches in queues with limits: they take what these let start, and keep nothing else from starting.

use crate::{
    batches::{Calls, until},
    costs::{self, Log},
    fake::{Call, FakeStore, Fault, Handlers, config},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{JobState, JobStore, Outcome, QueueLimits, RateLimit};
use windlass_runtime::{Context, EngineHandle, WorkerEngine};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTES: Duration = Duration::from_secs(600);

fn per(count: u32, seconds: u64) -> QueueLimits {
    QueueLimits::default().with_rate(RateLimit::new(count, SECOND * seconds as u32))
}

/// Workers of the queue, with this limit and so many jobs.
async fn working(
    limits: &QueueLimits,
    rows: usize,
    others: usize,
    workers: usize,
    handlers: Handlers,
) -> (FakeStore, Vec<EngineHandle>) {
    let store = FakeStore::new();
    store.plan(|_| Fault::Slow(MS));
    store.limit("q", limits).await.unwrap();
    store.add("q", "row", rows);
    store.add("q", "other", others);
    let (handlers, mut engines) = (Arc::new(handlers), Vec::new());
    for _ in 0..workers {
        let handlers = Arc::clone(&handlers);
        engines.push(WorkerEngine::start(store.shared(), config(10), handlers).await.unwrap());
    }
    (store, engines)
}

/// However slowly a limit lets more start, what may start now is claimed for a batch; and what may never start together does not wait for one another.
#[tokio::test(start_paused = true)]
async fn what_limits_let_start_comes_together() {
    let burst = |burst| QueueLimits::default().with_rate(RateLimit::new(100, 60 * SECOND).with_burst(burst));
    let at_once = |jobs| QueueLimits::default().with_concurrency(jobs);
    for (limits, rows, sizes, within) in [
        (per(100, 60), 40, vec![20, 20], SECOND),
        (per(20, 1), 40, vec![20, 20], 3 * SECOND),
        (per(5, 1), 15, vec![5, 5, 5], 4 * SECOND),
        (burst(5), 10, vec![5, 5], 5 * SECOND),
        (at_once(4), 12, vec![4, 4, 4], 2 * SECOND),
        (at_once(1), 3, vec![1, 1, 1], 2 * SECOND),
        (at_once(4).with_rate(RateLimit::new(100, 60 * SECOND)), 8, vec![4, 4], 2 * SECOND),
    ] {
        let (calls, began) = (Calls::default(), Instant::now());
        let handlers = calls.handlers(20, 20 * SECOND, 10 * MS);
        let (store, engines) = working(&limits, rows, 0, 1, handlers).await;
        until("all", || calls.jobs() == rows).await;
        assert_eq!(calls.sizes(), sizes, "{limits:?}");
        assert!(began.elapsed() < within, "{limits:?}: {:?}", began.elapsed());
        store.until("settled", |model| model.all_completed()).await;
        for engine in engines {
            engine.shutdown().await;
        }
    }
}

/// The limit lets them start, so they do not wait for the batch that comes together beside them.
#[tokio::test(start_paused = true)]
async fn other_kinds_go_on_in_a_limited_queue_while_a_batch_comes_together() {
    let at_once = QueueLimits::default().with_concurrency(4);
    for (limits, rows, waits) in [
        (per(100, 60), 1, vec![1]),
        (per(100, 60), 3, vec![3]),
        (at_once, 6, vec![4, 2]),
        (at_once, 2, vec![2]),
    ] {
        let (calls, began) = (Calls::default(), Instant::now());
        let handlers = calls.handlers(20, 20 * SECOND, 10 * MS).on("other", |_| sleep(10 * MS));
        let (store, engines) = working(&limits, rows, 10, 1, handlers).await;
        store.until("the others", |model| model.count(JobState::Completed) >= 10 + rows / 4 * 4).await;
        assert!(began.elapsed() < 2 * SECOND, "{limits:?}: {:?}", began.elapsed());
        store.until("settled", |model| model.all_completed()).await;
        assert_eq!(calls.sizes(), waits, "{limits:?}");
        assert_eq!(began.elapsed().as_secs(), 20, "{limits:?}");
        for engine in engines {
            engine.shutdown().await;
        }
    }
}

/// A large batch that runs takes no place of others: it is one call.
#[tokio::test(start_paused = true)]
async fn other_kinds_start_in_a_limited_queue_while_a_batch_runs() {
    for limits in [per(100, 60), QueueLimits::default().with_concurrency(50)] {
        let (calls, began) = (Calls::default(), Instant::now());
        let handlers = calls.handlers(20, 20 * SECOND, MINUTES).on("other", |_| sleep(10 * MS));
        let (store, engines) = working(&limits, 20, 0, 1, handlers).await;
        until("the batch", || calls.jobs() == 20).await;
        store.add("q", "other", 12);
        store.until("the others", |model| model.count(JobState::Completed) == 12).await;
        assert!(began.elapsed() < 5 * SECOND, "{limits:?}: {:?}", began.elapsed());
        for engine in engines {
            engine.abort_now();
            engine.wait().await;
        }
    }
}

/// Where several share a limit, no batch waits for jobs that its worker may not start.
#[tokio::test(start_paused = true)]
async fn workers_that_share_a_limit_fill_their_batches() {
    let (calls, began) = (Calls::default(), Instant::now());
    let handlers = calls.handlers(20, 20 * SECOND, 100 * MS);
    let limits = QueueLimits::default().with_concurrency(6);
    let (store, engines) = working(&limits, 120, 0, 3, handlers).await;
    let mut most = 0;
    while calls.jobs() < 120 {
        most = most.max(engines.iter().map(|engine| engine.stats().running).sum());
        // The last ones may wait for others.
        assert!(began.elapsed() < 15 * SECOND || calls.jobs() > 100, "{:?}", calls.sizes());
        assert!(began.elapsed() < 60 * SECOND, "{:?}", calls.sizes());
        sleep(MS).await;
    }
    assert!(most <= 6, "{most} ran");
    store.until("settled", |model| model.all_completed()).await;
    for engine in engines {
        engine.shutdown().await;
    }
}

/// Jobs that join a batch while the store is asked for it take nothing away from it: what the store counted starts.
#[tokio::test(start_paused = true)]
async fn what_was_let_start_is_used_though_more_jobs_come_meanwhile() {
    for wait in [Duration::ZERO, 50 * MS, 200 * MS] {
        let rate = RateLimit::new(300, 5 * SECOND);
        let (store, log, calls) = (costs::limited(rate).await, Log::default(), Arc::new(AtomicUsize::new(0)));
        store.plan(|call| Fault::Slow(if call == Call::Share { 20 * MS } else { MS }));
        let (log_of, calls_of) = (log.clone(), Arc::clone(&calls));
        let handlers = Handlers::default().on_batch("row", (100, wait), None, move |jobs| {
            jobs.iter().for_each(|job| log_of.begin(job));
            calls_of.fetch_add(1, Ordering::Relaxed);
            async move { vec![Outcome::Complete(None); jobs.len()] }
        });
        let engine = WorkerEngine::start(store.shared(), config(10), Arc::new(handlers)).await.unwrap();
        for _ in 0..400 {
            log.add(&store, "row", 0, &[1]);
            sleep(4 * MS).await;
        }
        sleep(SECOND).await;
        log.check(&rate);
        let (started, calls) = (log.started(), calls.load(Ordering::Relaxed));
        assert!(started >= 285, "{started} of 300 started in {calls} calls of jobs that wait {wait:?}");
        engine.shutdown().await;
    }
}

/// A batch is full when no more of its jobs could start with it.
#[tokio::test(start_paused = true)]
async fn a_batch_does_not_wait_for_what_costs_too_much() {
    let rate = RateLimit::new(100, 10 * SECOND);
    let (store, log, began) = (costs::limited(rate).await, Log::default(), Instant::now());
    log.add(&store, "row", 0, &[30; 6]);
    let log_of = log.clone();
    let handlers = Handlers::default().on_batch("row", (20, MINUTES), None, move |jobs| {
        jobs.iter().for_each(|job| log_of.begin(job));
        async move { vec![Outcome::Complete(None); jobs.len()] }
    });
    let engine = WorkerEngine::start(store.shared(), config(4), Arc::new(handlers)).await.unwrap();
    while log.started() < 6 {
        assert!(began.elapsed() < 30 * SECOND, "{} started", log.started());
        sleep(MS).await;
    }
    log.check(&rate);
    engine.shutdown().await;
}

/// Whatever limits there are, whatever comes together beside whatever else: what may start does, nothing starts that may not, and the store is not asked again and again.
#[tokio::test(start_paused = true)]
async fn batches_under_any_limits_end_and_keep_them() {
    let seeds = std::env::var("WINDLASS_BATCH_SEEDS").map_or(0..12, |seeds| {
        let (from, to) = seeds.split_once("..").unwrap();
        from.parse().unwrap()..to.parse().unwrap()
    });
    for seed in seeds {
        let mut dice = fastrand::Rng::with_seed(seed);
        let rate = RateLimit::new(dice.u32(1..40), dice.u32(1..8) * SECOND);
        let rate =
            if dice.bool() { rate } else { rate.with_burst(dice.u32(rate.count.div_ceil(10)..=rate.count)) };
        let concurrency = dice.u32(1..30);
        let (with_rate, with_concurrency) = [(true, false), (false, true), (true, true)][dice.usize(..3)];
        let mut limits = QueueLimits::default();
        limits.rate = with_rate.then_some(rate);
        limits.concurrency = with_concurrency.then_some(concurrency);
        let (store, log) = (FakeStore::new(), Log::default());
        let shares = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&shares);
        store.plan(move |call| {
            asked.fetch_add(usize::from(call == Call::Share), Ordering::Relaxed);
            Fault::Slow(MS)
        });
        store.limit("q", &limits).await.unwrap();
        let (dear, most_jobs, wait, takes) =
            (dice.bool(), dice.usize(1..30), dice.u32(0..15) * SECOND, dice.u32(0..2_000) * MS);
        let workers = dice.usize(1..4);
        let mut engines = Vec::new();
        let (running, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for client in 0..workers {
            let handlers = mixed(&log, most_jobs, wait, takes, &running, &highest);
            let config = config(dice.usize(1..12));
            engines.push(
                WorkerEngine::start(Arc::new(store.seen_by(client)), config, Arc::new(handlers))
                    .await
                    .unwrap(),
            );
        }
        let (began, mut total, mut jobs) = (Instant::now(), 0_u64, 0);
        for _ in 0..dice.usize(1..6) {
            let kind = ["row", "line", "other"][dice.usize(..3)];
            let costs: Vec<_> =
                (0..dice.usize(1..60)).map(|_| if dear { dice.u32(1..50) } else { 1 }).collect();
            total += costs.iter().map(|cost| u64::from(rate.cost(*cost))).sum::<u64>();
            jobs += costs.len();
            log.add(&store, kind, 0, &costs);
            sleep(dice.u32(0..3_000) * MS).await;
        }
        let by_rate = rate.period * (2 * total / u64::from(rate.count) + 4) as u32 * 2;
        let by_slots = (takes + SECOND) * jobs as u32;
        let longest = if with_rate { by_rate } else { Duration::ZERO } + by_slots + wait * 12 + 20 * SECOND;
        while !store.lock().all_completed() {
            assert!(
                began.elapsed() < longest,
                "seed {seed}: {} of {jobs} started after {longest:?}, {limits:?}, batches of {most_jobs}, {wait:?}",
                log.started()
            );
            sleep(10 * MS).await;
        }
        if with_rate {
            log.check(&rate);
        }
        let highest = highest.load(Ordering::Relaxed);
        assert!(!with_concurrency || highest <= concurrency as usize, "seed {seed}: {highest} ran");
        let (asked, most) = (
            shares.load(Ordering::Relaxed),
            jobs * 6 + workers * began.elapsed().as_secs() as usize * 6 + 100,
        );
        assert!(
            with_concurrency || asked <= most,
            "seed {seed}: asked {asked} times for {jobs} jobs in {:?}, {limits:?}",
            began.elapsed()
        );
        for engine in engines {
            engine.shutdown().await;
        }
    }
}

/// Two kinds that come in batches, and one that does not.
fn mixed(
    log: &Log,
    most: usize,
    wait: Duration,
    takes: Duration,
    running: &Arc<AtomicUsize>,
    highest: &Arc<AtomicUsize>,
) -> Handlers {
    let begin = {
        let (log, running, highest) = (log.clone(), Arc::clone(running), Arc::clone(highest));
        move |jobs: &[Context]| {
            jobs.iter().for_each(|job| log.begin(job));
            highest
                .fetch_max(running.fetch_add(jobs.len(), Ordering::Relaxed) + jobs.len(), Ordering::Relaxed);
        }
    };
    let (single, running_alone) = (begin.clone(), Arc::clone(running));
    let mut handlers = Handlers::default().on("other", move |context| {
        single(std::slice::from_ref(&context));
        let running = Arc::clone(&running_alone);
        async move {
            sleep(takes).await;
            running.fetch_sub(1, Ordering::Relaxed);
        }
    });
    for (kind, most, wait) in [("row", most, wait), ("line", most / 2 + 1, Duration::ZERO)] {
        let (begin, running) = (begin.clone(), Arc::clone(running));
        handlers = handlers.on_batch(kind, (most, wait), None, move |jobs| {
            begin(&jobs);
            let running = Arc::clone(&running);
            async move {
                sleep(takes).await;
                running.fetch_sub(jobs.len(), Ordering::Relaxed);
                vec![Outcome::Complete(None); jobs.len()]
            }
        });
    }
    handlers
}
