//! Random histories of workers that ask for slots, end, and have their limit changed.

use crate::{
    limits::{ask, at_once, limit},
    steps::*,
};
use std::{collections::BTreeMap, sync::Arc};
use windlass_core::{Store, WorkerId};

/// How many workers there are at a time.
const ACTORS: usize = 4;

/// Slots of a worker that asks for so many and runs so many.
pub(super) async fn slots(store: &Arc<dyn Store>, worker: WorkerId, running: u32, want: u32) -> u32 {
    let share = ask(store, worker, running, want, 0).await;
    let slots = share.slots.expect("a limit of concurrency");
    assert!(slots >= running && slots <= want.max(running), "{share:?} for {want}, running {running}");
    slots
}

/// What a worker of a history runs, and may run.
struct Actor {
    running: u32,
    slots: u32,
    dying: bool,
}

pub(super) struct History {
    store: Arc<dyn Store>,
    rng: fastrand::Rng,
    limit: u32,
    actors: BTreeMap<WorkerId, Actor>,
}

impl History {
    pub(super) async fn begin(store: &Arc<dyn Store>, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let mut history = Self { store: Arc::clone(store), rng, limit: 5, actors: BTreeMap::new() };
        limit(store, at_once(history.limit)).await;
        for _ in 0..ACTORS {
            history.join().await;
        }
        history
    }

    /// All workers leave. The limit that is left.
    pub(super) async fn end(self) -> u32 {
        for id in self.actors.into_keys() {
            self.store.deregister(id).await.expect("deregister");
        }
        self.limit
    }

    pub(super) async fn call(&mut self) {
        let ids: Vec<_> = self.actors.keys().copied().collect();
        let id = ids[self.rng.usize(..ids.len())];
        match self.rng.u32(..20) {
            0 => self.leave(id).await,
            1 => {
                self.limit = self.rng.u32(1..8);
                limit(&self.store, at_once(self.limit)).await;
            }
            2..=5 => self.actor(id).running = self.actor(id).slots.max(self.actor(id).running),
            6..=9 => self.actor(id).running /= 2,
            10 => {
                let running = self.actor(id).running;
                self.ask(id, running).await;
            }
            _ => {
                let want = self.rng.u32(..8);
                self.ask(id, want).await;
            }
        }
    }

    fn actor(&mut self, id: WorkerId) -> &mut Actor {
        self.actors.get_mut(&id).expect("an actor")
    }

    async fn join(&mut self) {
        let dying = self.rng.u32(..4) == 0;
        let lease = if dying { TINY_LEASE } else { LEASE };
        let id = worker(&self.store, &[QUEUE], &[], lease).await.id;
        self.actors.insert(id, Actor { running: 0, slots: 0, dying });
    }

    async fn leave(&mut self, id: WorkerId) {
        if self.actors[&id].dying {
            let rescuer = worker_on(&self.store).await;
            let rescued = eventually("somebody is rescued", || async {
                let workers = self.store.rescue(rescuer.id).await.expect("rescue").workers;
                workers.contains(&id).then_some(workers)
            });
            let rescued = rescued.await;
            self.store.deregister(rescuer.id).await.expect("deregister");
            self.actors.retain(|id, _| !rescued.contains(id));
        } else {
            self.store.deregister(id).await.expect("deregister");
            self.actors.remove(&id);
        }
        while self.actors.len() < ACTORS {
            self.join().await;
        }
    }

    async fn ask(&mut self, id: WorkerId, want: u32) {
        let running = self.actors[&id].running;
        let got = slots(&self.store, id, running, want).await;
        self.actor(id).slots = got;
        let sum: u32 = self.actors.values().map(|actor| actor.slots).sum();
        // What ran before the limit was lowered keeps its slot; nobody gets one beyond that.
        assert!(got == running || sum <= self.limit, "{got} slots, {sum} in all, of {}", self.limit);
    }
}
