use async_trait::async_trait;
use std::time::Duration;
use tokio::{sync::watch, time::timeout};
use windlass_core::{Wake, Wakeup};

/// A worker's way to wait: every change that may bring work wakes all who wait.
pub(crate) struct MemoryWakeup(pub(crate) watch::Receiver<()>);

#[async_trait]
impl Wakeup for MemoryWakeup {
    async fn arm(&mut self) {
        self.0.mark_unchanged();
    }

    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.0.changed()).await {
            Ok(Ok(())) => Wake::Hint,
            _ => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {}
}
