use super::Run;
use anyhow::Result;
use std::time::{Duration, Instant};
use windlass::Client;

/// How often the queues are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Run {
    /// Waits until no job waits or runs. Whether that came about in time.
    pub(super) fn drain(&mut self, patience: Duration) -> Result<bool> {
        let end = Instant::now() + patience;
        let store = self.setup.store.clone();
        let client = self.block_on(Client::connect(&store))?;
        while Instant::now() < end {
            if self.block_on(is_drained(&client))? {
                return Ok(true);
            }
            self.wait(LOOK_EVERY)?;
        }
        Ok(false)
    }
}

async fn is_drained(client: &Client) -> Result<bool> {
    match client.queues().await {
        Ok(queues) => Ok(queues.iter().all(|q| q.available + q.running + q.scheduled + q.retryable == 0)),
        // Connections that a fault cut come back.
        Err(error) if error.is_connection_loss() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
