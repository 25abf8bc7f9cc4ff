use async_trait::async_trait;
use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use windlass_core::{Ends, OnRequest, OnSchedules, Wake, Wakeup, WorkerId};

type Told = dyn Fn(Option<WorkerId>) + Send + Sync;
type ToldOfSchedules = dyn Fn() + Send + Sync;

/// Those who want to know when a heartbeat has something to say, and when schedules changed.
#[derive(Default)]
pub(crate) struct Requests {
    heartbeats: Mutex<Vec<Weak<Told>>>,
    schedules: Mutex<Vec<Weak<ToldOfSchedules>>>,
}

impl Requests {
    /// Tells all whom a heartbeat may have something to say.
    pub(crate) fn tell(&self) {
        there(&self.heartbeats).iter().for_each(|told| told(None));
    }

    pub(crate) fn tell_of_schedules(&self) {
        there(&self.schedules).iter().for_each(|told| told());
    }
}

fn add<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>, told: &Arc<T>) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|told| told.strong_count() > 0);
    all.push(Arc::downgrade(told));
}

/// Those who are still there; the lock is free when they are called.
fn there<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    all.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// A worker's way to wait: every change that may bring work wakes all who wait.
pub(crate) struct MemoryWakeup {
    changed: watch::Receiver<()>,
    requests: Arc<Requests>,
    told: Option<OnRequest>,
    told_of_schedules: Option<OnSchedules>,
}

impl MemoryWakeup {
    pub(crate) fn new(changed: watch::Receiver<()>, requests: Arc<Requests>) -> Self {
        Self { changed, requests, told: None, told_of_schedules: None }
    }
}

#[async_trait]
impl Wakeup for MemoryWakeup {
    async fn arm(&mut self) {
        self.changed.mark_unchanged();
    }

    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.changed.changed()).await {
            Ok(Ok(())) => Wake::Hint,
            _ => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {}

    fn on_request(&mut self, told: OnRequest) {
        add(&self.requests.heartbeats, &told);
        self.told = Some(told);
    }

    fn on_schedules(&mut self, told: OnSchedules) {
        add(&self.requests.schedules, &told);
        self.told_of_schedules = Some(told);
    }
}

/// Whoever waits for ends is woken by every change.
pub(crate) struct MemoryEnds(pub(crate) watch::Receiver<()>);

#[async_trait]
impl Ends for MemoryEnds {
    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.0.changed()).await {
            Ok(Ok(())) => Wake::Hint,
            _ => Wake::Timeout,
        }
    }
}
