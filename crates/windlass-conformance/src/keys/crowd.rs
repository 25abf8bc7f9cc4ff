//! Many workers on the keys of a queue, one after the other at random, and at the same time.

use super::story::*;
use crate::{Fixture, steps::*};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;
use windlass_core::{Disposition, KeyLimitsChange, Store};

/// How many histories are told, and how many calls one makes.
const SEEDS: u64 = 4;
const CALLS: usize = 80;
/// The keys, and how many of each may be held.
const KEYS: [(&str, usize); 4] = [("a", 1), ("b", 2), ("c", 4), ("d", 3)];

struct Actor {
    worker: TestWorker,
    held: Vec<Held>,
}

async fn join(store: &Arc<dyn Store>) -> Actor {
    Actor { worker: worker_on(store).await, held: Vec::new() }
}

async fn limit_them(store: &Arc<dyn Store>) {
    let named = KEYS.iter().map(|(key, most)| ((*key).to_owned(), Some(at_once(*most as u32)))).collect();
    change(store, KeyLimitsChange::Named(named)).await;
}

pub(super) async fn random_histories(store: &Arc<dyn Store>) {
    limit_them(store).await;
    for seed in 0..SEEDS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut actors = vec![join(store).await, join(store).await, join(store).await];
        for _ in 0..CALLS {
            let who = rng.usize(..actors.len());
            call(store, &mut rng, &mut actors[who]).await;
            for (key, most) in KEYS {
                let held: usize = actors.iter().map(|actor| count_of(&actor.held, key)).sum();
                assert!(held <= most, "seed {seed}: {held} of {key}, whose limit is {most}");
            }
        }
        for actor in &actors {
            store.deregister(actor.worker.id).await.expect("deregister");
        }
        let last = worker_on(store).await;
        let mut fresh = Vec::new();
        for (key, most) in KEYS {
            fresh.extend(enqueue_of(store, key, most).await);
        }
        let held = last.claim_all(1_000).await;
        for (key, most) in KEYS {
            assert_eq!(count_of(&held, key), most, "seed {seed}: all slots of {key} are free again");
        }
        last.complete_all(&held).await;
        last.work_all(100).await;
        store.deregister(last.id).await.expect("deregister");
    }
}

async fn call(store: &Arc<dyn Store>, rng: &mut fastrand::Rng, actor: &mut Actor) {
    match rng.u32(..12) {
        0..=2 => {
            let (key, _) = KEYS[rng.usize(..KEYS.len())];
            let batch: Vec<_> = (0..rng.usize(1..6))
                .map(|_| job_of(key).with_priority(rng.i16(-1..2)).with_max_attempts(100))
                .collect();
            store.enqueue(&batch).await.expect("enqueue");
        }
        3..=6 => actor.held.extend(actor.worker.claim_all(rng.usize(1..7)).await),
        7 => {
            let left = std::mem::replace(actor, join(store).await);
            store.deregister(left.worker.id).await.expect("deregister");
        }
        8 => {
            store.promote(100).await.expect("promote");
        }
        _ if actor.held.is_empty() => {}
        _ => {
            let held = actor.held.swap_remove(rng.usize(..actor.held.len()));
            let mut ways = Vec::from(not_over(Duration::from_millis(rng.u64(..3))));
            ways.extend(over());
            // What was settled is settled, also when it is said again.
            let said: Disposition = ways.swap_remove(rng.usize(..ways.len()));
            for _ in 0..rng.u32(1..3) {
                actor.worker.except(&held, said.clone()).await;
            }
        }
    }
}

/// How many jobs of each key are held by anybody for sure.
#[derive(Default)]
struct Ledger {
    held: Mutex<HashMap<String, usize>>,
    done: AtomicUsize,
}

impl Ledger {
    fn take(&self, jobs: &[Held]) {
        let mut all = self.held.lock().expect("no panic");
        for (key, most) in KEYS {
            let held = all.entry(key.to_owned()).or_default();
            *held += count_of(jobs, key);
            assert!(*held <= most, "{held} of {key}, whose limit is {most}");
        }
    }

    fn give_back(&self, jobs: &[Held]) {
        let mut all = self.held.lock().expect("no panic");
        for job in jobs {
            *all.entry(key_of(job).to_owned()).or_default() -= 1;
        }
    }
}

/// How many jobs of each key the racing workers do.
const EACH: usize = 60;

pub(super) async fn race(fixture: &dyn Fixture, store: &Arc<dyn Store>) {
    limit_them(store).await;
    let ledger = Arc::new(Ledger::default());
    let mut tasks = JoinSet::new();
    for (key, _) in KEYS {
        let producer = fixture.open().await;
        tasks.spawn(async move {
            for _ in 0..EACH / 5 {
                enqueue_of(&producer, key, 5).await;
            }
        });
    }
    for seed in 0..4 {
        let (store, ledger) = (fixture.open().await, Arc::clone(&ledger));
        tasks.spawn(async move { compete(store, seed, &ledger).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no worker fails");
    }
    assert_eq!(ledger.done.load(Ordering::Relaxed), KEYS.len() * EACH);
    worker_on(store).await.waits().await;
}

async fn compete(store: Arc<dyn Store>, seed: u64, ledger: &Ledger) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let worker = worker_on(&store).await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while ledger.done.load(Ordering::Relaxed) < KEYS.len() * EACH {
        assert!(tokio::time::Instant::now() < deadline, "the jobs are done in time");
        let jobs = held(&worker.claim(rng.u32(1..8)).await);
        ledger.take(&jobs);
        tokio::task::yield_now().await;
        let returned = jobs.len().min(rng.usize(..4) / 3);
        ledger.give_back(&jobs);
        let (back, done) = jobs.split_at(returned);
        let exceptions = back.iter().map(|held| held.exception(Disposition::Return)).collect();
        worker.settle(done.iter().map(Held::completion).collect(), exceptions).await;
        ledger.done.fetch_add(done.len(), Ordering::Relaxed);
    }
}
