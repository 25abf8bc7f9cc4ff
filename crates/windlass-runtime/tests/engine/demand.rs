//! How much is claimed, and when the store is asked.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass_core::{Args, JobStore, NewJob};
use windlass_runtime::{WorkerConfig, WorkerEngine};

#[tokio::test(start_paused = true)]
async fn long_jobs_are_claimed_one_per_free_slot() {
    const MINUTE: Duration = Duration::from_secs(60);
    let (store, started) = (FakeStore::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&started);
    let handlers = Handlers::default().on("long", move |ctx| {
        counted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(MINUTE + Duration::from_secs(ctx.id().0 as u64))
    });
    store.add("q", "long", 100);
    let engine = WorkerEngine::start(store.shared(), config(10), Arc::new(handlers)).await.unwrap();
    while !store.model().all_completed() {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stats = engine.stats();
        assert!(stats.claimed <= 10 + stats.completed, "{stats:?}");
        assert_eq!(stats.claimed, started.load(Ordering::SeqCst) as u64, "what is claimed runs at once");
    }
    engine.shutdown().await;
}

/// How many no-op jobs each claim asked for until all were done, when a claim takes 2 ms.
async fn demands_of_ten_slots(store: &FakeStore) -> Vec<u32> {
    store.plan(|call| match call {
        Call::Claim => Fault::Slow(Duration::from_millis(2)),
        _ => Fault::None,
    });
    let engine = WorkerEngine::start(
        store.shared(),
        config(10),
        Arc::new(Handlers::default().on("noop", |_| async {})),
    );
    let engine = engine.await.unwrap();
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    store.model().demands.clone()
}

#[tokio::test]
async fn no_op_jobs_are_claimed_by_the_thousand() {
    let store = FakeStore::new();
    store.add("q", "noop", 200_000);
    let demands = demands_of_ten_slots(&store).await;
    assert_eq!(demands[0], 10, "the first claim is for the free slots");
    assert!(demands.iter().any(|demand| *demand >= 1_000), "{demands:?}");
    assert!(demands.iter().all(|demand| *demand <= 5_000), "{demands:?}");
}

/// What waits in memory is bounded by its size: 5,000 jobs of 1 MiB would be 5 GiB.
#[tokio::test]
async fn large_jobs_are_claimed_by_their_bytes() {
    let store = FakeStore::new();
    let args = Args::of(&"a".repeat(1024 * 1024 - 2)).unwrap();
    let job = [NewJob::new("noop", args).with_queue("q")];
    for _ in 0..200 {
        store.enqueue(&job).await.unwrap();
    }
    let demands = demands_of_ten_slots(&store).await;
    assert!(demands.iter().all(|demand| *demand <= 10 + 32), "{demands:?}");
    assert!(demands.iter().any(|demand| *demand > 10), "{demands:?}");
}

/// Others that claim from the same lane are no sign of an empty queue: the worker does not idle beside a backlog.
#[tokio::test(start_paused = true)]
async fn a_contended_queue_is_asked_again_in_milliseconds() {
    let store = FakeStore::new();
    store.model().contended = true;
    store.add("q", "noop", 10);
    let config = WorkerConfig { poll_interval: Duration::from_secs(3600), ..config(10) };
    let engine =
        WorkerEngine::start(store.shared(), config, Arc::new(Handlers::default().on("noop", |_| async {})));
    let engine = engine.await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = store.model().demands.len();
    assert!((150..1_000).contains(&asked), "asked {asked} times in a second");
    assert_eq!(store.model().arms, 0, "not idle");
    store.model().contended = false;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(store.model().all_completed());
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_is_woken_by_a_hint() {
    let store = FakeStore::new();
    let config = WorkerConfig { poll_interval: Duration::from_secs(3600), ..config(1) };
    let engine =
        WorkerEngine::start(store.shared(), config, Arc::new(Handlers::default().on("noop", |_| async {})));
    let engine = engine.await.unwrap();
    for round in 1..=3 {
        // The worker waits for minutes by then: only a hint can wake it in time. A claim for a job or two leaves it armed.
        tokio::time::sleep(Duration::from_secs(1_800)).await;
        assert_eq!(store.model().arms, 1);
        store.add("q", "noop", 1);
        let came = tokio::time::Instant::now();
        store.until("done", |model| model.all_completed() && model.total() == round).await;
        assert!(came.elapsed() < Duration::from_millis(100), "{:?}", came.elapsed());
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn false_hints_make_the_worker_wait_longer_before_it_arms_again() {
    let store = FakeStore::new();
    let engine = WorkerEngine::start(store.shared(), config(1), Arc::new(Handlers::default())).await.unwrap();
    for _ in 0..10_000 {
        store.announce();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let arms = store.model().arms;
    assert!((10..80).contains(&arms), "{arms} arms in 10 s of 1,000 false hints a second");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_hardly_asks() {
    let store = FakeStore::new();
    let engine =
        WorkerEngine::start(store.shared(), config(100), Arc::new(Handlers::default())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = store.model().demands.len();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let claims = store.model().demands.len() - before;
    assert!((80..130).contains(&claims), "{claims} claims in 100 s with a poll interval of 1 s");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_their_threads_do_not_hold_the_others_up() {
    const TOGETHER: usize = 8;
    let store = FakeStore::new();
    store.add("q", "blocking", TOGETHER);
    // Nobody passes before all run at the same time.
    let barrier = Arc::new(Barrier::new(TOGETHER));
    let handlers = Handlers::default().on("blocking", move |_| {
        let barrier = Arc::clone(&barrier);
        async move {
            tokio::task::block_in_place(|| barrier.wait());
        }
    });
    let engine = WorkerEngine::start(store.shared(), config(TOGETHER), Arc::new(handlers)).await.unwrap();
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_busy_queue_does_not_starve_a_quiet_one_and_the_other_way_round() {
    let store = FakeStore::new();
    store.add("q", "noop", 50_000);
    let config = WorkerConfig::default().with_queue("q", 10).with_queue("rare", 1);
    let handlers = Handlers::default().on("noop", |_| async {});
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
    store.add("rare", "noop", 1);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
}
