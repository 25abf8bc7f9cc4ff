//! Finished jobs are settled by claim: as a whole where possible, in ranges where not.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};
use windlass_core::{Disposition, JobSet, JobState, Outcome};
use windlass_runtime::{Settling, WorkerConfig, WorkerEngine};

#[tokio::test]
async fn claims_that_finish_before_the_next_settlement_are_settled_as_whole_claims() {
    const JOBS: usize = 20_000;
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    store.add("q", "noop", JOBS);
    let handlers = Handlers::default().on("noop", |_| async {});
    let engine = WorkerEngine::start(store.shared(), config(10), Arc::new(handlers)).await.unwrap();
    while engine.stats().completed < JOBS as u64 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(JOBS);
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    let model = store.model();
    let completions: Vec<_> = model.settles.iter().flat_map(|settle| &settle.completions).collect();
    // Only the first settlement may have met claims that were half done, whose other half is named later.
    let first = model.settles[0].completions.len();
    let halves: Vec<_> = completions[..first].iter().map(|completion| completion.claim).collect();
    let later = completions[first..].iter().filter(|completion| completion.jobs != JobSet::Rest);
    assert_eq!(later.filter(|completion| !halves.contains(&completion.claim)).count(), 0, "{completions:?}");
    assert_eq!(completions.iter().map(|completion| completion.count as usize).sum::<usize>(), JOBS);
    assert_eq!(engine.stats().settled, JOBS as u64);
}

#[tokio::test]
async fn a_finished_job_does_not_wait_for_the_rest_of_its_claim() {
    let store = FakeStore::new();
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let handlers = Handlers::default().on("fast", |_| async {}).on("slow", move |_| {
        let gate = Arc::clone(&waits);
        async move { gate.acquire().await.unwrap().forget() }
    });
    for kind in ["fast", "fast", "slow", "fast", "slow"] {
        store.add("q", kind, 1);
    }
    let engine = WorkerEngine::start(store.shared(), config(5), Arc::new(handlers)).await.unwrap();
    store.until("the fast ones are done", |model| model.count(JobState::Completed) == 3).await;
    {
        let model = store.model();
        let sets = model.settles.iter().flat_map(|settle| &settle.completions).map(|done| done.jobs.clone());
        let ids: Vec<(i64, i64)> = sets
            .flat_map(|set| match set {
                JobSet::Ranges(ranges) => ranges,
                JobSet::Rest => panic!("the claim is not finished"),
            })
            .collect();
        assert!(
            ids.iter().all(|(from, to)| !(*from..=*to).contains(&3) && !(*from..=*to).contains(&5)),
            "{ids:?}"
        );
    }
    gate.add_permits(2);
    store.until("all done", |model| model.all_completed()).await;
    let settles = store.model().settles.clone();
    let all: Vec<_> = settles.iter().flat_map(|settle| &settle.completions).collect();
    assert!(
        all.iter().all(|done| done.jobs != JobSet::Rest),
        "each job is named, as parts were settled before: {all:?}"
    );
    assert_eq!(all.iter().map(|done| done.count).sum::<u32>(), 5);
    engine.shutdown().await;
}

#[tokio::test]
async fn the_rest_of_a_claim_does_not_swallow_its_exceptions() {
    let store = FakeStore::new();
    let handlers = Handlers::default().on("mixed", |ctx| async move {
        match ctx.id().0 % 3 {
            0 => Outcome::Cancel("third".into()),
            _ => Outcome::Complete(None),
        }
    });
    store.add("q", "mixed", 3_000);
    let engine = WorkerEngine::start(store.shared(), config(3), Arc::new(handlers)).await.unwrap();
    store.until("all settled", |model| model.held() == 0 && model.count(JobState::Available) == 0).await;
    engine.shutdown().await;
    let model = store.model();
    assert_eq!((model.count(JobState::Completed), model.count(JobState::Cancelled)), (2_000, 1_000));
}

#[tokio::test]
async fn results_collect_while_a_settlement_is_under_way() {
    let store = FakeStore::new();
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    store.add("q", "noop", 100);
    let engine = WorkerEngine::start(
        store.shared(),
        config(10),
        Arc::new(Handlers::default().on("noop", |_| async {})),
    );
    let engine = engine.await.unwrap();
    while engine.stats().completed < 100 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    store.until("all done", |model| model.all_completed()).await;
    assert!(store.model().settles.len() <= 2, "what collected must go in one call");
    gate.add_permits(10);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_strict_slot_takes_no_job_before_its_last_is_settled() {
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    store.add("q", "noop", 30);
    let handlers = Handlers::default().on("noop", |_| async {});
    let strict = WorkerConfig { settling: Settling::Strict, ..config(3) };
    let engine = WorkerEngine::start(store.shared(), strict, Arc::new(handlers)).await.unwrap();
    while engine.stats().settled < 30 {
        let stats = engine.stats();
        assert!(stats.completed - stats.settled <= 3, "no more than the slots can be unsettled: {stats:?}");
        if stats.unsettled > 0 {
            gate.add_permits(1);
        }
        tokio::task::yield_now().await;
    }
    engine.shutdown().await;
    let model = store.model();
    assert!(model.all_completed());
    assert!(model.settles.len() >= 10, "three jobs at most in each of {}", model.settles.len());
}

#[tokio::test]
async fn strict_slots_end_though_the_store_never_takes_their_results() {
    let store = FakeStore::new();
    let never = Arc::new(Semaphore::new(0));
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&never)),
        _ => Fault::None,
    });
    store.add("q", "noop", 30);
    let handlers = Arc::new(Handlers::default().on("noop", |_| async {}));
    let kept = Arc::downgrade(&handlers);
    let strict = WorkerConfig { settling: Settling::Strict, ..config(3) };
    let engine = WorkerEngine::start(store.shared(), strict, handlers).await.unwrap();
    while engine.stats().completed < 3 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    engine.shutdown().await;
    drop(engine);
    // Executors hold the handlers: the last is dropped when each has ended.
    while kept.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

/// One job among many whose failure the store refuses costs that job: its neighbours run once, by the worker that
/// has them.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_the_store_refuses_costs_one_job() {
    const JOBS: usize = 1_000;
    let (store, runs) = (FakeStore::new(), Arc::new(AtomicUsize::new(0)));
    store.add("q", "job", JOBS);
    let culprit = store.add("q", "bad", 1)[0];
    store.add("q", "job", JOBS);
    store.model().unstorable = Some(culprit);
    let counted = Arc::clone(&runs);
    let handlers = Handlers::default()
        .on("job", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async {}
        })
        .on("bad", |_| async { Err::<(), _>("€") });
    let engine = WorkerEngine::start(store.shared(), config(50), Arc::new(handlers)).await.unwrap();
    store.until("the neighbours are done", |model| model.count(JobState::Completed) == 2 * JOBS).await;
    store.until("the culprit is dead", |model| model.count(JobState::Discarded) == 1).await;
    engine.shutdown().await;
    let model = store.model();
    assert_eq!(runs.load(Ordering::SeqCst), 2 * JOBS);
    assert_eq!(model.registered.len(), 1, "the registration was lost");
    assert!(model.refusals < 25, "{} refusals", model.refusals);
    let said = model.settles.iter().flat_map(|settle| &settle.exceptions).find(|said| said.job == culprit);
    let Some(Disposition::Discard { error, failed: true }) = said.map(|said| &said.disposition) else {
        panic!("{said:?}");
    };
    assert!(error.is_ascii() && error.contains("LATIN1"), "{error}");
}

/// Results that come one by one go together: a call for each would cost a flush of the store's log for each. The first waits for
/// nobody, and a strict slot never does.
#[tokio::test(start_paused = true)]
async fn results_that_come_one_by_one_are_settled_every_two_milliseconds() {
    const JOBS: usize = 200;
    for settling in [Settling::Pipelined, Settling::Strict] {
        let (store, runs) = (FakeStore::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&runs);
        let handlers = Handlers::default().on("job", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async {}
        });
        let config = WorkerConfig { settling, ..config(10) };
        let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
        let began = Instant::now();
        for count in 1..=JOBS {
            store.add("q", "job", 1);
            while runs.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
            if count == 1 {
                store.until("the first is settled", |model| model.all_completed()).await;
                assert_eq!(began.elapsed(), Duration::ZERO, "{settling:?}");
            }
        }
        store.until("all are done", |model| model.all_completed()).await;
        let most = 2 + began.elapsed().as_millis() as usize / 2;
        let settles = store.model().settles.len();
        match settling {
            Settling::Pipelined => assert!(settles <= most, "{settles} in {:?}", began.elapsed()),
            Settling::Strict => assert!(settles > JOBS / 2, "{settles} in {:?}", began.elapsed()),
        }
        engine.shutdown().await;
    }
}
