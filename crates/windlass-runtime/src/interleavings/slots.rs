//! Never more than `concurrency` handlers, and never fewer than there are jobs for.

use super::{bench::Bench, fake::Handlers, in_every_order};
use shuttle::{
    future::{block_on, yield_now},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::sync::Arc;
use tokio::sync::Barrier;
use windlass_core::{JobId, JobState, Outcome};

const SLOTS: usize = 2;

/// Counts how many handlers run at once.
fn counted(running: &Arc<AtomicUsize>) -> Handlers {
    let (quick, waiting) = (Arc::clone(running), Arc::clone(running));
    let enter = |running: &AtomicUsize| {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= SLOTS, "{now} handlers in {SLOTS} slots");
    };
    Handlers::default()
        .on("quick", move |_| {
            enter(&quick);
            quick.fetch_sub(1, Ordering::SeqCst);
            async {}
        })
        .on("waiting", move |_| {
            let running = Arc::clone(&waiting);
            async move {
                enter(&running);
                yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
        })
}

#[test]
fn handlers_never_exceed_the_slots() {
    in_every_order(|| {
        block_on(async {
            let bench = Bench::start(SLOTS, counted(&Arc::default())).await;
            let store = bench.store.clone();
            store.add("q", "quick", 2);
            store.add("q", "waiting", 3);
            store.add("q", "quick", 2);
            for limit in [3, 1, 3] {
                bench.claim(limit).await;
            }
            store.until("all done", |model| model.all_completed()).await;
            bench.finish().await;
        });
    });
}

#[test]
fn no_slot_leaks() {
    in_every_order(|| {
        block_on(async {
            let together = Arc::new(Barrier::new(SLOTS));
            let handlers = Handlers::default()
                .on("panics", |_| async {
                    yield_now().await;
                    std::panic::resume_unwind(Box::new("on purpose")) as Outcome
                })
                .on("together", move |_| {
                    let together = Arc::clone(&together);
                    async move {
                        together.wait().await;
                    }
                });
            let bench = Bench::start(SLOTS, handlers).await;
            let store = bench.store.clone();
            store.add("q", "panics", 3);
            bench.claim(3).await;
            // They arrive while executors go to sleep: each must find one that takes it.
            let probes = store.add("q", "together", SLOTS);
            for _ in 0..SLOTS {
                bench.claim(1).await;
            }
            store.until("the probes met", |model| model.count(JobState::Completed) == probes.len()).await;
            bench.finish().await;
        });
    });
}

#[test]
fn closing_starts_nothing_and_loses_nothing() {
    in_every_order(|| {
        block_on(async {
            let bench = Bench::start(SLOTS, counted(&Arc::default())).await;
            let store = bench.store.clone();
            store.add("q", "waiting", 4);
            bench.claim(4).await;
            yield_now().await;
            // What is not started is returned, what runs finishes.
            bench.finish().await;
            let mut model = store.model();
            let waiting = model.count(JobState::Available);
            assert_eq!((model.held(), model.count(JobState::Completed)), (0, 4 - waiting));
            for id in (1..=4).map(JobId) {
                assert_eq!(model.job(id).state == JobState::Available, model.returns(id) == 1);
            }
        });
    });
}
