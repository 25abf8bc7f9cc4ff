use crate::Client;
use std::time::Duration;
use windlass_core::Result;
use windlass_runtime::EngineHandle;

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a worker takes its jobs from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) queues: Vec<String>,
    /// Empty: any.
    pub(crate) kinds: Vec<String>,
}

impl Source {
    /// Waits until nothing is available and nothing is in hand, nor held by a worker whose lease is over: this one takes that back when it has been
    /// in touch for as long as such a lease. Workers that each end before would leave it for ever.
    pub(crate) async fn until_idle(&self, worker: &EngineHandle) -> Result<()> {
        // Twice in a row: a claim may begin between a look at the worker and the one at the store.
        let mut seen_empty_at = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let stats = worker.stats();
            let in_hand = worker.has_open_claims() || stats.running + stats.ready + stats.unsettled > 0;
            let empty = !in_hand && self.is_empty().await?;
            if empty && seen_empty_at == Some(stats.claimed) {
                return Ok(());
            }
            seen_empty_at = empty.then_some(stats.claimed);
        }
    }

    /// An unreachable store is not empty: the worker outlives outages, so this does too.
    async fn is_empty(&self) -> Result<bool> {
        match self.client.any_available(&self.queues, &self.kinds).await {
            Ok(any) => Ok(!any),
            Err(error) if error.is_connection_loss() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
