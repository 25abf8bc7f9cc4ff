use super::{Losses, RemoteJob, RemoteWorker, Taking, limits::Want, whole};
use std::sync::Arc;
use windlass_core::Result;

/// Somebody waits for jobs for this worker, until it is dropped. Shares of queues with limits are asked for meanwhile.
#[derive(Debug)]
pub struct Wanting(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    worker: Arc<RemoteWorker>,
    /// `None`: as much as there is room for.
    want: Option<Want>,
}

impl Wanting {
    pub(super) fn begin(worker: &Arc<RemoteWorker>, want: Option<Vec<(String, usize)>>) -> Self {
        let want: Option<Want> =
            want.map(|want| want.into_iter().map(|(queue, count)| (queue.into(), count)).collect());
        worker.lock().begin_wanting(want.as_ref());
        Self(Arc::new(Entry { worker: Arc::clone(worker), want }))
    }

    /// Gives it jobs: as many as are wanted of each queue, and never more than it may have. They are good until they are settled or its lease ends.
    ///
    /// Jobs that are expired, cancelled, encrypted or of kinds that it does not know are not given out but settled, as the engine does. Of jobs that may
    /// have killed workers it has one at a time. Of queues with [limits](windlass_core::JobStore::limit) it gets what its share allows to start now; what
    /// it has counts as running until it is settled. None is given out once one of these answers [was lost](RemoteWorker::again): who waited for
    /// it is gone.
    ///
    /// # Errors
    /// A lost lease; the store's.
    pub async fn take(&self, losses: &Losses) -> Result<Vec<RemoteJob>> {
        // In this order: whoever asks again has either stopped this or waits for it.
        let taking = Taking::begin(&self.0.worker);
        if losses.is_any() {
            return Ok(Vec::new());
        }
        let entry = Arc::clone(&self.0);
        whole(tokio::spawn(async move { taking.0.take_whole(entry.want.as_ref()).await })).await
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.worker.lock().end_wanting(self.want.as_ref());
        self.worker.ring();
    }
}
