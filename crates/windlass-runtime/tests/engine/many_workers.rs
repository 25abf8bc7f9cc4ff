//! Several processes on one store: who takes whose jobs, and what all of them together ask of it.

use crate::fake::{
    Call, FakeStore, Fault, Handlers, config,
    history::{What, Why},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use windlass_core::ErrorKind;
use windlass_runtime::{EngineHandle, WorkerConfig, WorkerEngine};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

/// Workers of one process each, which run jobs that never end.
async fn fleet(store: &FakeStore, count: usize) -> Vec<EngineHandle> {
    let mut engines = Vec::new();
    for client in 0..count {
        let handlers = Handlers::default().on("job", |_| std::future::pending::<()>());
        let config = WorkerConfig { lease: LEASE, ..config(2) };
        let seen = Arc::new(store.seen_by(client));
        engines.push(WorkerEngine::start(seen, config, Arc::new(handlers)).await.unwrap());
    }
    engines
}

fn starts(store: &FakeStore) -> usize {
    store.model().history.events.iter().filter(|event| matches!(event.what, What::Claimed { .. })).count()
}

fn overdue(store: &FakeStore) -> usize {
    let events = &store.model().history.events;
    let overdue = |what: &What| matches!(what, What::LeaseEnded { why: Why::Overdue, .. });
    events.iter().filter(|event| overdue(&event.what)).count()
}

/// A store whose leases run out, with what happened kept.
fn mortal_store() -> FakeStore {
    let store = FakeStore::new();
    let mut model = store.lock();
    (model.leases_run_out, model.history.kept) = (true, true);
    drop(model);
    store
}

#[tokio::test(start_paused = true)]
async fn nobody_who_lives_is_rescued_after_an_outage_of_two_leases() {
    const WORKERS: usize = 5;
    let store = mortal_store();
    store.add("q", "job", 2 * WORKERS);
    let engines = fleet(&store, WORKERS).await;
    sleep(LEASE).await;
    assert_eq!(starts(&store), 2 * WORKERS);
    for _ in 0..3 {
        let heal = Instant::now() + 2 * LEASE;
        (0..WORKERS).for_each(|client| store.cut_off(client, heal));
        sleep(4 * LEASE).await;
        store.go_down();
        sleep(2 * LEASE).await;
        store.come_back();
        sleep(2 * LEASE).await;
    }
    assert_eq!((overdue(&store), starts(&store)), (0, 2 * WORKERS), "a job started again");
    engines.iter().for_each(EngineHandle::abort_now);
}

#[tokio::test(start_paused = true)]
async fn the_dead_are_rescued_in_time() {
    const WORKERS: usize = 3;
    let store = mortal_store();
    store.add("q", "job", 2 * WORKERS);
    let engines = fleet(&store, WORKERS).await;
    sleep(2 * LEASE).await;
    store.kill(0);
    store.until("the dead one is found", |model| model.live_count() == WORKERS - 1).await;
    // One that dies in an outage is found within two leases of its end.
    store.kill(1);
    store.cut_off(2, Instant::now() + 2 * LEASE);
    sleep(2 * LEASE).await;
    let healed = Instant::now();
    sleep(LEASE / 2).await;
    store.until("it is found after the outage", |model| model.live_count() == WORKERS - 2).await;
    assert!(healed.elapsed() <= 2 * LEASE, "after {:?}", healed.elapsed());
    engines.iter().for_each(EngineHandle::abort_now);
}

/// Whenever it died between two heartbeats: others know when the lease ends, and look then.
#[tokio::test(start_paused = true)]
async fn the_dead_are_rescued_within_their_lease_and_some() {
    for seconds in 0..10 {
        let store = mortal_store();
        let engines = fleet(&store, 2).await;
        sleep(2 * LEASE + seconds * SECOND).await;
        store.kill(0);
        let died = Instant::now();
        store.until("the dead one is found", |model| model.live_count() == 1).await;
        assert!(died.elapsed() <= LEASE + 3 * SECOND, "after {:?}", died.elapsed());
        engines.iter().for_each(EngineHandle::abort_now);
    }
}

/// Three of four heartbeats of one worker fail, or hang, as on connections that die without a word: the next comes soon enough.
#[tokio::test(start_paused = true)]
async fn some_bad_heartbeats_cost_no_lease() {
    for bad in [Fault::Fail(ErrorKind::Unavailable), Fault::Slow(100 * LEASE)] {
        let store = mortal_store();
        store.add("q", "job", 4);
        let mut nth = 0;
        let fault = bad.clone();
        store.plan_for(move |client, call, _| match call {
            Call::Heartbeat if client == 0 => {
                nth += 1;
                if nth % 4 == 0 { Fault::None } else { fault.clone() }
            }
            _ => Fault::None,
        });
        let engines = fleet(&store, 2).await;
        sleep(20 * LEASE).await;
        assert_eq!((overdue(&store), starts(&store)), (0, 4), "{bad:?}");
        engines.iter().for_each(EngineHandle::abort_now);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_workers_stand_by() {
    const WORKERS: usize = 50;
    let store = mortal_store();
    let engines = fleet(&store, WORKERS).await;
    sleep(2 * LEASE).await;
    let calls = |store: &FakeStore| {
        let upkeep = |what: &What| matches!(what, What::Asked { call: Call::Upkeep, .. });
        store.model().history.events.iter().filter(|event| upkeep(&event.what)).count()
    };
    let before = calls(&store);
    sleep(60 * SECOND).await;
    let each_second = (calls(&store) - before) as f64 / 60.0;
    // Promotions every 5 s, rescues and leadership every 10 s.
    assert!(each_second <= WORKERS as f64 * 0.45, "{each_second} calls a second");
    engines.iter().for_each(EngineHandle::abort_now);
}
