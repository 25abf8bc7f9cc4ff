use super::store::FakeStore;
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::timeout;
use windlass_core::{JobStore, OnRequest, OnSchedules, Wake, Wakeup};

/// A way to wait that hears only what the test announces; and of requests, as the store in memory tells.
pub struct FakeWakeup {
    store: FakeStore,
    memory: Box<dyn Wakeup>,
}

impl FakeWakeup {
    pub fn new(store: FakeStore) -> Self {
        Self { memory: store.memory.wakeup(), store }
    }
}

#[async_trait]
impl Wakeup for FakeWakeup {
    async fn arm(&mut self) {
        self.store.lock().arms += 1;
        self.store.announce_change();
    }

    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.store.hint.notified()).await {
            Ok(()) => Wake::Hint,
            Err(_) => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {}

    fn on_request(&mut self, told: OnRequest) {
        self.memory.on_request(told);
    }

    fn on_schedules(&mut self, told: OnSchedules) {
        self.memory.on_schedules(told);
    }
}
