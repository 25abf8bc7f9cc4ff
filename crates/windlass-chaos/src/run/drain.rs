use super::Run;
use anyhow::Result;
use std::time::{Duration, Instant};
use windlass::Client;

/// How often the queues are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Run {
    /// Waits until no job waits or runs: for `patience`, and for as long as the rate of the run keeps back what is there at
    /// first. Whether that came about in time.
    pub(super) fn drain(&mut self, patience: Duration) -> Result<bool> {
        let (mut end, mut kept_back) = (Instant::now() + patience, self.rules.rate);
        let store = self.setup.store.clone();
        let client = self.block_on(Client::connect(&store))?;
        while Instant::now() < end {
            match self.block_on(left(&client))? {
                Some(0) => return Ok(true),
                Some(left) => {
                    end += kept_back.take().map_or(Duration::ZERO, |rate| rate.period * (left / rate.count));
                }
                None => {}
            }
            self.wait(LOOK_EVERY)?;
        }
        Ok(false)
    }
}

/// How many jobs wait or run, if the store says.
async fn left(client: &Client) -> Result<Option<u32>> {
    match client.queues().await {
        Ok(queues) => {
            let left = queues.iter().map(|q| q.available + q.running + q.scheduled + q.retryable);
            Ok(Some(u32::try_from(left.sum::<u64>())?))
        }
        // Connections that a fault cut come back.
        Err(error) if error.is_connection_loss() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
