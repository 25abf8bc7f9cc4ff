use super::{Load, Order};
use crate::{
    bug,
    history::{Recorder, Witness},
};
use fastrand::Rng;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use windlass::{Client, JobEdit, JobFilter};

/// How long a sweep rests at most, in milliseconds.
const REST: u64 = 120;
/// How many jobs one touches at most. On a busy machine a hundred edits on PostgreSQL take a second, and most of what a run of some seconds does has to be a sweep.
const MOST: u64 = 100;

/// Takes back whatever waits or runs in its queue, again and again, and notes what it was told of each job.
pub(super) struct Sweep {
    client: Client,
    queue: String,
    rng: Rng,
}

impl Sweep {
    pub(super) fn new(order: &Order, load: &Load, client: &Client, recorder: &Arc<Recorder>) -> Self {
        let store = match order.bug {
            Some(bug) => bug::wrap(bug, Arc::clone(client.store()), order.seed),
            None => Arc::clone(client.store()),
        };
        let witness = Witness::new(store, Arc::clone(recorder), 0);
        let client = Client::from_store(Arc::new(witness));
        Self { client, queue: load.queue.clone(), rng: Rng::with_seed(!order.seed) }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(self.rng.u64(..REST))).await;
            if let Err(error) = self.sweep().await {
                tracing::debug!(%error, "a sweep failed");
            }
        }
    }

    async fn sweep(&mut self) -> windlass::Result<()> {
        let queue = Some(self.queue.clone());
        let most = self.rng.u64(1..=MOST);
        let all = self.client.select(JobFilter { queue, ..JobFilter::default() }).at_most(most);
        let touched = match self.rng.u32(..8) {
            0..4 => all.cancel().await?,
            4 => all.delete().await?,
            5 => all.edit(JobEdit::new().with_priority(self.rng.i16(-1..=1))).await?,
            6 => all.edit(JobEdit::new().with_delay(Duration::from_millis(self.rng.u64(1..300)))).await?,
            _ => all.edit(JobEdit::new().with_no_delay().with_max_attempts(19)).await?,
        };
        tracing::debug!(?touched, "swept");
        Ok(())
    }
}
