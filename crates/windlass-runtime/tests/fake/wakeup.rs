use super::store::FakeStore;
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::timeout;
use windlass_core::{Wake, Wakeup};

/// A way to wait that hears only what the test announces.
pub struct FakeWakeup(pub FakeStore);

#[async_trait]
impl Wakeup for FakeWakeup {
    async fn arm(&mut self) {
        self.0.lock().arms += 1;
        self.0.announce_change();
    }

    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.0.hint.notified()).await {
            Ok(()) => Wake::Hint,
            Err(_) => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {}
}
