use super::{
    fault::{Call, Fault, Process},
    model::Model,
};
use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use windlass_core::{ErrorKind, JobId, Store, WorkerId};
use windlass_memory::MemoryStore;

/// No test takes nearly as long; one that does failed.
const DEADLINE: Duration = Duration::from_secs(120);

type Plan = Box<dyn FnMut(usize, Call, Option<WorkerId>) -> Fault + Send>;

/// The store as one process sees it; clones are the same one.
#[derive(Clone)]
pub struct FakeStore {
    inner: Arc<Inner>,
    client: usize,
}

pub struct Inner {
    pub(super) memory: MemoryStore,
    model: Mutex<Model>,
    plan: Mutex<Option<Plan>>,
    processes: Mutex<Vec<Process>>,
    changed: watch::Sender<u64>,
    pub(super) hint: Notify,
    /// Queues whose limits somebody changes in a transaction that stays open.
    pub(super) locked: Mutex<Vec<String>>,
}

impl Deref for FakeStore {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl FakeStore {
    pub fn new() -> Self {
        let memory = MemoryStore::new();
        let inner = Inner {
            model: Mutex::new(Model::new(memory.clone())),
            memory,
            plan: Mutex::new(None),
            processes: Mutex::default(),
            changed: watch::Sender::new(0),
            hint: Notify::new(),
            locked: Mutex::default(),
        };
        Self { inner: Arc::new(inner), client: 0 }
    }

    /// What an engine is given.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    /// The same store, as another process sees it.
    pub fn seen_by(&self, client: usize) -> Self {
        Self { inner: Arc::clone(&self.inner), client }
    }

    pub fn client(&self) -> usize {
        self.client
    }

    pub(super) fn decide(&self, call: Call, worker: Option<WorkerId>) -> Fault {
        self.plan.lock().unwrap().as_mut().map_or(Fault::None, |plan| plan(self.client, call, worker))
    }
}

impl Inner {
    /// What is stored; for tests, which fail when a worker did what it must not.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        let model = self.lock();
        if !model.violations.is_empty() {
            let violations = model.violations.clone();
            drop(model);
            panic!("{violations:?}");
        }
        model
    }

    pub fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    pub(super) fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap()
    }

    pub(super) fn announce_change(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// The store's clock.
    pub fn clock(&self) -> &windlass_memory::Clock {
        self.memory.clock()
    }

    /// Decides about every call from now on.
    pub fn plan(&self, mut plan: impl FnMut(Call) -> Fault + Send + 'static) {
        self.plan_for(move |_, call, _| plan(call));
    }

    /// Decides about every call of every process from now on.
    pub fn plan_for(&self, plan: impl FnMut(usize, Call, Option<WorkerId>) -> Fault + Send + 'static) {
        *self.plan.lock().unwrap() = Some(Box::new(plan));
    }

    /// Fails every call of a worker, as an outage does.
    pub fn go_down(&self) {
        self.plan(|_| Fault::Fail(ErrorKind::Unavailable));
    }

    /// Nobody gets a share of these queues from now on.
    pub fn lock_limits(&self, queues: &[&str]) {
        *self.locked.lock().unwrap() = queues.iter().map(ToString::to_string).collect();
    }

    pub fn come_back(&self) {
        *self.plan.lock().unwrap() = None;
    }

    /// Adds jobs and wakes idle workers.
    pub fn add(&self, queue: &str, kind: &str, count: usize) -> Vec<JobId> {
        let ids = self.lock().add(queue, kind, count);
        self.announce();
        ids
    }

    pub fn announce(&self) {
        self.hint.notify_waiters();
    }

    /// Waits until the model is as described.
    pub async fn until(&self, what: &str, mut reached: impl FnMut(&mut Model) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !reached(&mut self.model()) {
                changed.changed().await.unwrap();
            }
        };
        assert!(timeout(DEADLINE, wait).await.is_ok(), "not reached: {what}");
    }
}
