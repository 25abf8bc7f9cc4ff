//! Leases that end, replies that are lost: the worker registers anew and no job is left behind.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;
use windlass_core::{ErrorKind, JobState, WorkerId};
use windlass_runtime::{EngineHandle, WorkerConfig, WorkerEngine};

const FIRST: WorkerId = WorkerId(1);

/// A handler whose first runs wait until they are cancelled; later ones complete.
fn cancelled_once(first: usize, cancelled: &Arc<AtomicUsize>) -> Handlers {
    let (cancelled, runs) = (Arc::clone(cancelled), AtomicUsize::new(0));
    Handlers::default().on("job", move |ctx| {
        let (cancelled, run) = (Arc::clone(&cancelled), runs.fetch_add(1, Ordering::SeqCst));
        async move {
            if run < first {
                ctx.cancelled().await;
                cancelled.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
}

async fn start(store: &FakeStore, concurrency: usize, handlers: Handlers) -> EngineHandle {
    let config = WorkerConfig { lease: Duration::from_millis(300), ..config(concurrency) };
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

async fn running(engine: &EngineHandle, count: usize) {
    let wait = async {
        while engine.stats().running < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_cancels_handlers_drops_results_and_registers_anew() {
    let (store, cancelled) = (FakeStore::new(), Arc::default());
    store.add("q", "job", 5);
    let engine = start(&store, 5, cancelled_once(5, &cancelled)).await;
    running(&engine, 5).await;
    store.model().end_lease(FIRST);
    store.until("all done by the successor", |model| model.all_completed()).await;
    assert_eq!(cancelled.load(Ordering::SeqCst), 5);
    store.until("the old one is deregistered", |model| model.deregistered.contains(&FIRST)).await;
    {
        let model = store.model();
        assert_eq!(model.registered.len(), 2);
        assert!(
            model.settles.iter().all(|settle| settle.worker != FIRST),
            "results of a lost lease are dropped"
        );
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_refused_settlement_loses_the_lease() {
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    store.add("q", "job", 3);
    let engine = start(&store, 3, Handlers::default().on("job", |_| async {})).await;
    while engine.stats().completed < 3 {
        tokio::task::yield_now().await;
    }
    store.model().end_lease(FIRST);
    gate.add_permits(1_000);
    store.until("all done by the successor", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert!(store.model().registered.len() >= 2);
}

/// A crash of the database forgets the newest claims, and nothing else.
#[tokio::test]
async fn a_forgotten_claim_costs_its_own_jobs_only() {
    let (store, settling, slow) =
        (FakeStore::new(), Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (held, runs) = (Arc::clone(&settling), Arc::new(AtomicUsize::new(0)));
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    let (waits, counts) = (Arc::clone(&slow), Arc::clone(&runs));
    let handlers = Handlers::default().on("quick", |_| async {}).on("slow", move |ctx| {
        let (waits, counts) = (Arc::clone(&waits), Arc::clone(&counts));
        async move {
            counts.fetch_add(1, Ordering::SeqCst);
            waits.acquire().await.unwrap().forget();
            assert!(!ctx.is_cancelled());
        }
    });
    store.add("q", "slow", 1);
    let engine = start(&store, 2, handlers).await;
    running(&engine, 1).await;
    let quick = store.add("q", "quick", 1)[0];
    store.announce();
    while engine.stats().completed < 1 {
        tokio::task::yield_now().await;
    }
    store.model().forget_claim_of(quick);
    settling.add_permits(1_000);
    store.until("the forgotten one is done", |model| model.count(JobState::Completed) == 1).await;
    slow.add_permits(10);
    store.until("both are done", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "whose claim stands starts once");
    assert_eq!(store.model().registered.len(), 2);
}

/// What still runs of a forgotten claim starts again elsewhere: its handler is told at once, and not only when it ends.
#[tokio::test]
async fn handlers_of_a_forgotten_claim_are_told_to_stop() {
    let (store, cancelled) = (FakeStore::new(), Arc::default());
    let settling = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&settling);
    store.plan(move |call| match call {
        Call::Settle => Fault::Gate(Arc::clone(&held)),
        _ => Fault::None,
    });
    let handlers = cancelled_once(1, &cancelled).on("quick", |_| async {});
    store.add("q", "job", 1);
    let quick = store.add("q", "quick", 1)[0];
    let engine = start(&store, 2, handlers).await;
    while engine.stats().completed < 1 {
        tokio::task::yield_now().await;
    }
    running(&engine, 1).await;
    store.model().forget_claim_of(quick);
    assert_eq!(cancelled.load(Ordering::SeqCst), 0, "nobody knows yet");
    settling.add_permits(1_000);
    store.until("both are done by the successor", |model| model.all_completed()).await;
    assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn jobs_of_a_claim_whose_reply_was_lost_run_all_the_same() {
    let store = FakeStore::new();
    let mut claims = 0;
    store.plan(move |call| match call {
        Call::Claim => {
            claims += 1;
            // The second and the fifth claim are carried out but never answered.
            if claims == 2 || claims == 5 { Fault::LoseReply } else { Fault::None }
        }
        _ => Fault::None,
    });
    store.add("q", "job", 400);
    let engine = start(&store, 100, Handlers::default().on("job", |_| async {})).await;
    store.until("all done", |model| model.all_completed()).await;
    assert!(store.model().registered.len() >= 2);
    engine.shutdown().await;
    let model = store.model();
    assert_eq!(model.deregistered.len(), model.registered.len());
}

#[tokio::test]
async fn an_epoch_that_drains_keeps_its_lease_and_settles_its_running_jobs() {
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let handlers = Handlers::default().on("quick", |_| async {}).on("gated", move |_| {
        let gate = Arc::clone(&held);
        async move { gate.acquire().await.unwrap().forget() }
    });
    let slow = store.add("q", "gated", 1)[0];
    let engine = start(&store, 10, handlers).await;
    running(&engine, 1).await;
    let mut lost = false;
    store.plan(move |call| match call {
        Call::Claim if !std::mem::replace(&mut lost, true) => Fault::LoseReply,
        _ => Fault::None,
    });
    let quick = store.add("q", "quick", 1)[0];
    store.until("registered anew", |model| model.registered.len() == 2).await;
    let beats = store.model().heartbeats;
    store.until("both epochs beat on", |model| model.heartbeats >= beats + 8).await;
    let held = store.model().job(slow);
    assert_eq!((held.state, held.claimed_by), (JobState::Running, Some(FIRST)));
    let later = store.add("q", "quick", 1)[0];
    store.until("the successor works", |model| model.job(later).state == JobState::Completed).await;
    gate.add_permits(1);
    store.until("all done", |model| model.all_completed()).await;
    let returns = |job| store.model().returns(job);
    assert_eq!(returns(slow), 0, "the running job was settled, not handed back");
    assert_eq!(returns(quick), 1, "the unknown one was handed back");
    engine.shutdown().await;
}

/// Each claim whose answer is lost costs the worker a registration until the jobs that run under that have ended. However many there are, it works on; and what was
/// claimed by them comes back.
#[tokio::test(start_paused = true)]
async fn a_worker_claims_on_however_many_answers_are_lost_beside_long_jobs() {
    const LOST: usize = 12;
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let (held, runs, quick_runs) =
        (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (long, quick) = (Arc::clone(&runs), Arc::clone(&quick_runs));
    let handlers = Handlers::default()
        .on("quick", move |_| {
            quick.fetch_add(1, Ordering::SeqCst);
            async {}
        })
        .on("long", move |_| {
            long.fetch_add(1, Ordering::SeqCst);
            let gate = Arc::clone(&held);
            async move { gate.acquire().await.unwrap().forget() }
        });
    let engine = WorkerEngine::start(store.shared(), config(2 * LOST), Arc::new(handlers)).await.unwrap();
    for lost in 1..=LOST {
        store.add("q", "long", 1);
        until(|| runs.load(Ordering::SeqCst) == lost).await;
        store.plan(|call| if call == Call::Claim { Fault::LoseReply } else { Fault::None });
        let quick = store.add("q", "quick", 1)[0];
        store.until("it was claimed", |model| model.job(quick).state == JobState::Running).await;
        store.come_back();
    }
    let further = store.add("q", "quick", 1)[0];
    store.until("a further one is done", |model| model.job(further).state == JobState::Completed).await;
    assert_eq!(store.model().registered.len(), 8, "no more than so many");
    assert_eq!(engine.stats().running, LOST);

    gate.add_permits(LOST);
    store.until("all are done", |model| model.all_completed()).await;
    assert_eq!(
        (runs.load(Ordering::SeqCst), quick_runs.load(Ordering::SeqCst)),
        (LOST, LOST + 1),
        "each once"
    );
    engine.shutdown().await;
    let model = store.model();
    assert_eq!(model.deregistered.len(), model.registered.len());
}

/// Waits, on the paused clock, until that is so.
async fn until(reached: impl Fn() -> bool) {
    let wait = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), wait).await.expect("it is not reached");
}

/// A failover lost the settlement of a job, and its worker runs on: the job comes back as soon as the worker is told, and what runs is not started a second time.
#[tokio::test]
async fn a_job_whose_settlement_a_failover_lost_comes_back_while_its_worker_runs_on() {
    let (store, gate) = (FakeStore::new(), Arc::new(Semaphore::new(0)));
    let (held, runs) = (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)));
    let counts = Arc::clone(&runs);
    let handlers = Handlers::default().on("quick", |_| async {}).on("gated", move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&held);
        async move { gate.acquire().await.unwrap().forget() }
    });
    store.model().loses_settlements = true;
    let lost = store.add("q", "quick", 1)[0];
    let engine = start(&store, 2, handlers).await;
    store.until("it is settled as far as the worker knows", |model| model.settled == 1).await;
    store.model().loses_settlements = false;
    let running_on = store.add("q", "gated", 1)[0];
    store.announce();
    running(&engine, 1).await;
    let held = store.model().job(lost);
    assert_eq!((held.state, held.claimed_by), (JobState::Running, Some(FIRST)));

    store.model().outdated.push(FIRST);
    store.until("registered anew", |model| model.registered.len() == 2).await;
    let later = store.add("q", "quick", 1)[0];
    store.until("the successor works", |model| model.job(later).state == JobState::Completed).await;
    gate.add_permits(1);
    store.until("all done", |model| model.all_completed()).await;
    assert_eq!(store.model().returns(running_on), 0, "what ran was settled, not handed back");
    assert_eq!((store.model().returns(lost), runs.load(Ordering::SeqCst)), (1, 1));
    engine.shutdown().await;
    assert_eq!(store.model().registered.len(), 2, "once for each failover");
}

#[tokio::test]
async fn a_settlement_whose_reply_was_lost_is_repeated_as_it_was() {
    let store = FakeStore::new();
    let mut settles = 0;
    store.plan(move |call| match call {
        Call::Settle => {
            settles += 1;
            if settles % 2 == 1 { Fault::LoseReply } else { Fault::None }
        }
        _ => Fault::None,
    });
    store.add("q", "job", 100);
    let engine = start(&store, 10, Handlers::default().on("job", |_| async {})).await;
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert!(store.model().settles.windows(2).any(|pair| {
        pair[0].completions == pair[1].completions && pair[0].exceptions == pair[1].exceptions
    }));
    assert_eq!(store.model().registered, [FIRST]);
}

#[tokio::test]
async fn errors_that_changed_nothing_keep_the_registration() {
    let store = FakeStore::new();
    let mut claims = 0;
    store.plan(move |call| match call {
        Call::Claim => {
            claims += 1;
            if claims <= 3 { Fault::Fail(ErrorKind::Unavailable) } else { Fault::None }
        }
        _ => Fault::None,
    });
    store.add("q", "job", 10);
    let engine = start(&store, 10, Handlers::default().on("job", |_| async {})).await;
    store.until("all done", |model| model.all_completed()).await;
    engine.shutdown().await;
    assert_eq!(store.model().registered, [FIRST]);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_hangs_does_not_cost_the_lease() {
    let store = FakeStore::new();
    store.model().leases_run_out = true;
    let mut beats = 0;
    store.plan(move |call| match call {
        Call::Heartbeat => {
            beats += 1;
            // Every second connection is dead.
            if beats % 2 == 1 { Fault::Slow(Duration::from_secs(3_600)) } else { Fault::None }
        }
        _ => Fault::None,
    });
    let job = store.add("q", "slow", 1)[0];
    let handlers = Handlers::default().on("slow", |_| tokio::time::sleep(Duration::from_secs(60)));
    let config = WorkerConfig { lease: Duration::from_secs(3), ..config(1) };
    let engine = WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap();
    while store.model().job(job).state != JobState::Completed {
        assert_eq!(store.model().registered, [FIRST], "the lease must not be lost");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    engine.shutdown().await;
    assert_eq!(store.model().returns(job), 0);
}
