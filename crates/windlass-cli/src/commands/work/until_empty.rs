use crate::failure::Outcome;
use std::time::Duration;
use windlass::{Client, Worker};

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until nothing is available to this worker and it has nothing in hand. Jobs that wait for their
/// time, for another worker's handlers or for a paused queue are not available.
pub(super) async fn wait(client: &Client, worker: &Worker, queues: &[String], kinds: &[String]) -> Outcome {
    // Twice in a row: a claim whose answer is under way shows neither in the store nor in the worker.
    let mut seen_empty_at = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let stats = worker.stats();
        let in_hand = stats.running + stats.ready + stats.unsettled > 0;
        let empty = !in_hand && is_empty(client, queues, kinds).await?;
        if empty && seen_empty_at == Some(stats.claimed) {
            return Ok(());
        }
        seen_empty_at = empty.then_some(stats.claimed);
    }
}

/// An unreachable store is not empty: the worker outlives outages, so this does too.
async fn is_empty(client: &Client, queues: &[String], kinds: &[String]) -> Outcome<bool> {
    match client.any_available(queues, kinds).await {
        Ok(any) => Ok(!any),
        Err(error) if error.is_connection_loss() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
