use async_trait::async_trait;
use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use windlass_core::{Ends, OnRequest, Wake, Wakeup, WorkerId};

type Told = dyn Fn(Option<WorkerId>) + Send + Sync;

/// Those who want to know when a heartbeat has something to say.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Vec<Weak<Told>>>);

impl Requests {
    fn add(&self, told: &OnRequest) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|told| told.strong_count() > 0);
        all.push(Arc::downgrade(told));
    }

    /// Tells them all.
    pub(crate) fn tell(&self) {
        let all: Vec<_> = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        all.iter().for_each(|told| told(None));
    }
}

/// A worker's way to wait: every change that may bring work wakes all who wait.
pub(crate) struct MemoryWakeup {
    changed: watch::Receiver<()>,
    requests: Arc<Requests>,
    told: Option<OnRequest>,
}

impl MemoryWakeup {
    pub(crate) fn new(changed: watch::Receiver<()>, requests: Arc<Requests>) -> Self {
        Self { changed, requests, told: None }
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
        self.requests.add(&told);
        self.told = Some(told);
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
